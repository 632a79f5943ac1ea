//! Findings as text. Pure.

use super::findings::{Finding, Findings};
use crate::progress::align;

pub(super) fn text(findings: &Findings) -> String {
    let mut lines = Vec::new();
    if !findings.findings.is_empty() {
        let head = ["NAMESPACE", "KIND/NAME", "WHEN", "RULE", "MESSAGE"].map(str::to_owned);
        let rows: Vec<[String; 5]> =
            std::iter::once(head).chain(findings.findings.iter().map(row)).collect();
        lines.extend(align(&rows));
        lines.push(String::new());
    }
    if findings.left_out > 0 {
        lines.push(format!("and {} more (see --limit)", findings.left_out));
    }
    lines.push(format!(
        "{} of {} objects would be refused",
        findings.objects_refused, findings.objects_checked
    ));
    if findings.writes_checked > 0 {
        lines.push(format!(
            "{} of {} writes would have been refused",
            findings.writes_refused, findings.writes_checked
        ));
    }
    if findings.changed > 0 {
        lines.push(format!("{} would be changed", findings.changed));
    }
    lines.extend(findings.notes.iter().map(|it| format!("note: {it}")));
    lines.join("\n")
}

fn row(finding: &Finding) -> [String; 5] {
    let when = match &finding.write {
        None => "now".to_owned(),
        Some(write) => {
            let time = write.time.as_deref().unwrap_or("revision");
            format!("{} {time} ({})", write.operation, write.resource_version)
        }
    };
    let namespace = match finding.namespace.as_str() {
        "" => "-",
        namespace => namespace,
    };
    [
        namespace.to_owned(),
        format!("{}/{}", finding.kind.to_lowercase(), finding.name),
        when,
        finding.rule.clone(),
        finding.message.clone(),
    ]
}
