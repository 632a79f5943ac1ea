//! The host's network, processes and IPC are its own.

use super::Subject;
use super::text::Violation;

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let spec = pod.spec;
    let shared = [
        (spec.host_network, "hostNetwork=true"),
        (spec.host_pid, "hostPID=true"),
        (spec.host_ipc, "hostIPC=true"),
    ];
    let shared: Vec<&str> =
        shared.into_iter().filter(|it| it.0 == Some(true)).map(|it| it.1).collect();
    (!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") })
}
