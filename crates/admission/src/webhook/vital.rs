//! What must go on while a webhook that fails closed cannot be asked: nodes that say that they
//! live, and whoever leads that it leads. Else the cluster would take away the very pods that the
//! webhook runs in, and nobody would bring them back.
//!
//! Such a request is asked about like any other, and a webhook that says no is obeyed. Only what
//! nobody answered, or not soon, counts as agreement.

use std::time::Duration;

use crate::attributes::Attributes;

/// A lease of a leader ends after 15 s.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);

const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const LEADERS: &[&str] =
    &["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"];

pub(super) fn is_vital(request: &Attributes<'_>) -> bool {
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
