//! What must go on while a webhook that fails closed cannot be asked, or a policy that does cannot
//! be evaluated: nodes that say that they live, and whoever leads that it leads. Else the cluster
//! would take away the very pods that the webhook runs in, and nobody would bring them back; or
//! would die of an expression that somebody got wrong.
//!
//! Such a request is judged like any other, and who says no is obeyed. Only what nobody answered, or
//! not soon, and what could not be evaluated counts as agreement.

use std::time::Duration;

use crate::attributes::Attributes;

/// For a webhook to answer in: a lease of a leader ends after 15 s.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const LEADERS: &[&str] =
    &["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"];

pub(crate) fn is_vital(request: &Attributes<'_>) -> bool {
    let user = request.user;
    let node = user.name.strip_prefix("system:node:").filter(|_| user.is_in("system:nodes"));
    let (group, resource) = LEASES;
    if request.is(group, resource, "") {
        return match request.namespace {
            // NodeRestriction lets a node write no lease but its own.
            "kube-node-lease" => node.is_some(),
            "kube-system" => LEADERS.contains(&user.name.as_str()),
            _ => false,
        };
    }
    let is_node = request.is("", "nodes", "") || request.is("", "nodes", "status");
    is_node && node.is_some_and(|it| request.name.is_empty() || request.name == it)
}

#[cfg(test)]
mod tests {
    use apimachinery::User;

    use super::is_vital;
    use crate::attributes::Operation;
    use crate::plugins::fixture::{Case, Nobody, Objects};

    #[test]
    fn what_lives_goes_on() {
        let check =
            |user: (&str, &[&str]), resource: &str, (namespace, name): (&str, &str), expected| {
                let user = User::new(user.0, user.1);
                let case = Case { namespace, name, ..Case::of(Operation::Update, resource, &user) };
                let objects = Objects::default();
                let found =
                    case.with((&objects, &Nobody), (None, None), |it| is_vital(&it.request));
                assert_eq!(found, expected, "{resource} {namespace}/{name} by {}", user.name);
            };
        let leases = "coordination.k8s.io/leases";
        let node: (&str, &[&str]) = ("system:node:n1", &["system:nodes"]);
        let manager: (&str, &[&str]) = ("system:kube-controller-manager", &[]);
        check(node, leases, ("kube-node-lease", "n1"), true);
        check(("system:node:n1", &[]), leases, ("kube-node-lease", "n1"), false);
        check(node, leases, ("kube-system", "n1"), false);
        check(manager, leases, ("kube-system", "kube-controller-manager"), true);
        check(manager, leases, ("default", "kube-controller-manager"), false);
        check(("alice", &["system:masters"]), leases, ("kube-system", "x"), false);
        check(node, "/nodes/status", ("", "n1"), true);
        check(node, "/nodes/status", ("", "n2"), false);
        check(node, "/pods/status", ("ns", "web"), false);
    }
}
