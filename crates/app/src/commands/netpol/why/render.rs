//! An answer for people.

use apimachinery::ObjectKey;
use network::policy::state::Decision;
use network::policy::why::{Answer, Reason};

use super::question::{Question, shown};

pub(super) fn answer(question: &Question, answer: &Answer) -> String {
    let Answer { connection, egress, ingress } = answer;
    let word = if answer.allows() { "allowed" } else { "denied" };
    format!(
        "{} ({}) -> {} ({}) port {}/{}: {word}\n  egress:  {}\n  ingress: {}",
        shown(&question.from),
        connection.source,
        shown(&question.to),
        connection.destination,
        connection.port,
        connection.protocol,
        reason(egress, "egress"),
        reason(ingress, "ingress"),
    )
}

fn reason(reason: &Reason, direction: &str) -> String {
    match reason {
        Reason::Exempt(why) => format!("allowed: {why}"),
        Reason::Decided(Decision::NotIsolated) => {
            format!("allowed: no policy isolates the pod for {direction}")
        }
        Reason::Decided(Decision::Allowed { policy, rule }) => {
            format!("allowed by {}, spec.{direction}[{rule}]", named(policy))
        }
        Reason::Decided(Decision::Denied { policy, rule }) => {
            format!("denied by {}, spec.{direction}[{rule}]", named(policy))
        }
        Reason::Decided(Decision::Isolated { policies }) => {
            let names: Vec<String> = policies.iter().map(ObjectKey::to_string).collect();
            format!("denied: isolated by {}, and no rule allows it", names.join(", "))
        }
    }
}

fn named(policy: &ObjectKey) -> String {
    match policy.namespace.is_empty() {
        true => format!("ClusterNetworkPolicy {}", policy.name),
        false => format!("NetworkPolicy {policy}"),
    }
}
