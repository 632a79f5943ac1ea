//! What is masked of `/proc` stays masked.

use super::Subject;
use super::text::{Values, Violation, containers, quoted};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let (mut names, mut values) = (Vec::new(), Values::new());
    for container in pod.containers() {
        let mount = container.security.and_then(|it| it.proc_mount.as_deref());
        if let Some(mount) = mount.filter(|it| *it != "Default") {
            names.push(container.name);
            values.insert(mount);
        }
    }
    (!names.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            containers(&names),
            quoted(values)
        ),
    })
}
