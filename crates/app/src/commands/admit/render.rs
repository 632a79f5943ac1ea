//! A report as text. Pure.

use admission::observer::{By, Change, Part, Refusal, Report, Step, Verdict};
use serde_json::Value;

use super::{Outcome, hints};

/// Longer values are cut.
const VALUE_MAX: usize = 120;

pub(super) fn outcome(outcome: &Outcome) -> String {
    let target = &outcome.object;
    let name = format!("{}/{}", target.kind.to_lowercase(), target.name);
    let place = match target.namespace.as_str() {
        "" => name,
        namespace => format!("{name} in {namespace}"),
    };
    let mut lines = Vec::new();
    match &outcome.report {
        Some(report) => {
            lines.push(format!("{place}: {} {}", report.operation, verdict(report)));
            lines.extend(self::report(report));
        }
        None => {
            lines.push(format!("{place}: refused before admission"));
            lines.push(format!("  {}", outcome.error.as_deref().unwrap_or_default()));
        }
    }
    lines.join("\n")
}

fn verdict(report: &Report) -> &'static str {
    match report.verdict {
        Verdict::Allowed => "would be allowed",
        Verdict::Refused => "would be refused",
        Verdict::Unknown => "would be allowed by all who were asked; see who was not",
    }
}

fn report(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let mut idle = Vec::new();
    for step in &report.steps {
        if has_effect(step) {
            lines.extend(self::step(step));
        } else if !idle.contains(&step.plugin.as_str()) {
            idle.push(&step.plugin);
        }
    }
    // One that did something in another phase is not without effect.
    idle.retain(|it| !report.steps.iter().any(|step| step.plugin == **it && has_effect(step)));
    if !idle.is_empty() {
        lines.push(format!("  without effect: {}", idle.join(", ")));
    }
    if report.n_parts_left_out > 0 {
        lines.push(format!("  and {} more policies and webhooks", report.n_parts_left_out));
    }
    if let Some(refusal) = &report.refusal {
        lines.push(format!("  refused: {}", shown(refusal)));
        let by = report.steps.iter().find(|it| it.refusal.is_some());
        match by {
            Some(step) => {
                let hint = hints::find(&step.plugin).map(|it| format!("  what helps: {it}"));
                lines.extend(hint);
            }
            None => lines.push("  (by the validation of the object, not by admission)".to_owned()),
        }
    }
    lines
}

fn has_effect(step: &Step) -> bool {
    let says = !step.warnings.is_empty() || !step.annotations.is_empty();
    says || !step.changes.is_empty() || step.refusal.is_some() || !step.parts.is_empty()
}

fn step(step: &Step) -> Vec<String> {
    let again = if step.round > 1 { " (again)" } else { "" };
    let head = format!("{}{again}", step.plugin);
    let mut lines = vec![format!("  {:<9} {head:<34} {}", step.phase, time(step.micros))];
    lines.extend(changes(&step.changes, step.n_changes_left_out, "      "));
    lines.extend(step.warnings.iter().map(|it| format!("      warning: {it}")));
    lines.extend(step.annotations.iter().map(|(key, it)| format!("      audit: {key} = {it}")));
    for part in &step.parts {
        lines.extend(self::part(part));
    }
    if let Some(refusal) = &step.refusal
        && step.parts.iter().all(|it| it.refusal.is_none())
    {
        lines.push(format!("      refuses: {}", shown(refusal)));
    }
    lines
}

fn part(part: &Part) -> Vec<String> {
    let who = match &part.by {
        By::Policy { name, binding, param, .. } => {
            let binding =
                if binding.is_empty() { String::new() } else { format!(", binding {binding}") };
            let param = param.as_ref().map(|it| format!(", param {it}")).unwrap_or_default();
            format!("policy {name}{binding}{param}")
        }
        By::Webhook { configuration, name, .. } => format!("webhook {name} of {configuration}"),
    };
    let cost = part.cost.map(|it| format!(", cost {it}")).unwrap_or_default();
    let mut lines = vec![format!("      {who}: {}{cost}", time(part.micros))];
    lines.extend(part.note.iter().map(|it| format!("        {it}")));
    lines.extend(changes(&part.changes, part.n_changes_left_out, "        "));
    for expression in &part.expressions {
        let mark = if expression.message.is_some() { "!" } else { " " };
        let text = one_line(&expression.text);
        lines.push(format!("      {mark} {} (cost {}): {text}", expression.field, expression.cost));
        lines.extend(expression.message.iter().map(|it| format!("          {it}")));
    }
    lines.extend(part.warnings.iter().map(|it| format!("        warning: {it}")));
    lines.extend(part.annotations.iter().map(|(key, it)| format!("        audit: {key} = {it}")));
    lines.extend(part.refusal.iter().map(|it| format!("        refuses: {}", shown(it))));
    lines
}

fn changes(changes: &[Change], n_left_out: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for change in changes {
        let sides = [("-", &change.before), ("+", &change.after)];
        for (sign, value) in sides {
            if let Some(value) = value {
                lines.push(format!("{indent}{sign} {}: {}", change.path, value_text(value)));
            }
        }
    }
    if n_left_out > 0 {
        lines.push(format!("{indent}and {n_left_out} more changes"));
    }
    lines
}

fn shown(refusal: &Refusal) -> String {
    format!("{} {}: {}", refusal.code, refusal.reason, refusal.message)
}

fn time(micros: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let millis = micros as f64 / 1_000.0;
    format!("{millis:.1} ms")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn value_text(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
