//! All capabilities are dropped, and at most NET_BIND_SERVICE is added again.

use super::Subject;
use super::capabilities_baseline::{added, refusal};
use super::text::{Violation, containers};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let drops_all = |it: &super::subject::Seen<'_>| {
        let capabilities = it.security.and_then(|it| it.capabilities.as_ref());
        capabilities.is_some_and(|it| it.drop.iter().flatten().any(|it| it == "ALL"))
    };
    let keeping = pod.containers().filter(|it| !drops_all(it));
    let keeping: Vec<&str> = keeping.map(|it| it.name).collect();
    let (adding, values) = added(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let containers = containers(&keeping);
        details.push(format!("{containers} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        details.push(refusal(&adding, values));
    }
    (!details.is_empty())
        .then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}
