//! Programs may not get more rights than whoever started them.

use super::Subject;
use super::text::{Violation, containers};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let is_off = |it: &super::subject::Seen<'_>| {
        it.security.and_then(|it| it.allow_privilege_escalation) == Some(false)
    };
    let bad: Vec<&str> = pod.containers().filter(|it| !is_off(it)).map(|it| it.name).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&bad)
        ),
    })
}
