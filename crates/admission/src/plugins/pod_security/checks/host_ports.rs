//! The host's ports are its own.

use std::collections::BTreeSet;

use super::Subject;
use super::text::{Violation, containers, plural};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let mut names = Vec::new();
    // Sorted as texts, as upstream's are.
    let mut ports = BTreeSet::new();
    for container in pod.containers() {
        let taken = container.ports.iter().filter_map(|it| it.host_port).filter(|it| *it != 0);
        let taken: Vec<String> = taken.map(|it| it.to_string()).collect();
        if !taken.is_empty() {
            names.push(container.name);
            ports.extend(taken);
        }
    }
    (!names.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural(names.len(), "uses", "use"),
            plural(ports.len(), "hostPort", "hostPorts"),
            ports.into_iter().collect::<Vec<String>>().join(", ")
        ),
    })
}
