//! Nobody asks for the user root.

use super::Subject;
use super::text::{Setters, Violation};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let setters = Setters {
        is_pod: pod.security().and_then(|it| it.run_as_user) == Some(0),
        containers: pod.containers_where(|it| it.run_as_user == Some(0)),
    };
    (!setters.is_empty()).then(|| Violation {
        reason: "runAsUser=0",
        detail: format!("{} must not set runAsUser=0", setters.shown()),
    })
}
