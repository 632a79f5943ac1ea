//! The host's files are its own.

use super::Subject;
use super::text::{Violation, plural, quoted};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let volumes = pod.spec.volumes.iter().flatten().filter(|it| it.host_path.is_some());
    let names: Vec<&str> = volumes.map(|it| it.name.as_str()).collect();
    (!names.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(names)),
    })
}
