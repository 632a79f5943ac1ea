//! No capabilities beyond those that containers have by default.

use super::Subject;
use super::text::{Values, Violation, containers, quoted};

const ALLOWED: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Containers that add capabilities beyond `allowed`, and those capabilities.
pub(super) fn added<'a>(pod: &Subject<'a>, allowed: &[&str]) -> (Vec<&'a str>, Values<'a>) {
    let (mut names, mut values) = (Vec::new(), Values::new());
    for container in pod.containers() {
        let capabilities = container.security.and_then(|it| it.capabilities.as_ref());
        let added = capabilities.into_iter().flat_map(|it| it.add.iter().flatten());
        let bad: Vec<&str> = added.map(String::as_str).filter(|it| !allowed.contains(it)).collect();
        if !bad.is_empty() {
            names.push(container.name);
            values.extend(bad);
        }
    }
    (names, values)
}

pub(super) fn refusal(names: &[&str], values: Values<'_>) -> String {
    format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers(names),
        quoted(values)
    )
}

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let (names, values) = added(pod, ALLOWED);
    (!names.is_empty())
        .then(|| Violation { reason: "non-default capabilities", detail: refusal(&names, values) })
}
