//! Privileged containers are as good as the host.

use super::Subject;
use super::text::{Violation, containers};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let bad = pod.containers_where(|it| it.privileged == Some(true));
    (!bad.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", containers(&bad)),
    })
}
