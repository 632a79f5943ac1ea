//! Containers say that they do not run as root.

use super::Subject;
use super::text::{Setters, Violation, containers};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let of_pod = pod.security().and_then(|it| it.run_as_non_root);
    let mut setters = Setters { is_pod: of_pod == Some(false), ..Setters::default() };
    let mut silent = Vec::new();
    for container in pod.containers() {
        match container.security.and_then(|it| it.run_as_non_root) {
            Some(true) => {}
            Some(false) => setters.containers.push(container.name),
            None if of_pod == Some(true) => {}
            None => silent.push(container.name),
        }
    }
    let detail = if !setters.is_empty() {
        format!("{} must not set securityContext.runAsNonRoot=false", setters.shown())
    } else if !silent.is_empty() {
        format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent))
    } else {
        return None;
    };
    Some(Violation { reason: "runAsNonRoot != true", detail })
}
