//! What is said of allocated devices is for their drivers to say: those on the node that the
//! devices are on, or those that may speak of any node's.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::field::Path;
use apimachinery::{ApiError, FieldErrors, User};
use authz::Attributes;
use k8s_openapi::api::resource::v1::{
    AllocatedDeviceStatus, AllocationResult, ResourceClaimStatus,
};

use super::{GROUP, authorize};
use crate::pipeline::Core;
use crate::pipeline::hooks::Write;

const ASSOCIATED_NODE: &str = "associated-node:";
const ARBITRARY_NODE: &str = "arbitrary-node:";
/// What a token of a pod says of its node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

pub(super) fn validate(
    core: &Core,
    write: &Write<'_>,
    (new, old): (&ResourceClaimStatus, &ResourceClaimStatus),
    path: &Path,
    errors: &mut FieldErrors,
) {
    let verb = write.request.call.verb.name();
    let node = new.allocation.as_ref().and_then(node_of);
    let is_there = node.is_some_and(|it| is_on_node(write.request.user(), it));
    let prefixes: &[&str] =
        if is_there { &[ASSOCIATED_NODE, ARBITRARY_NODE] } else { &[ARBITRARY_NODE] };
    let verbs: Vec<String> = prefixes.iter().map(|it| format!("{it}{verb}")).collect();
    for driver in changed_drivers(new, old) {
        if let Err(refused) = authorize_driver(core, write, &verbs, driver) {
            let verbs = verbs.join(" ");
            let why = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{verbs}]\" permission: {refused}"
            );
            errors.forbidden(path, &why);
        }
    }
}

/// Any of the verbs will do; of several refusals the first is told.
fn authorize_driver(
    core: &Core,
    write: &Write<'_>,
    verbs: &[String],
    driver: &str,
) -> Result<(), ApiError> {
    let mut first = None;
    for verb in verbs {
        let attributes = Attributes::resource(verb, GROUP, "resourceclaims/driver");
        match authorize(core, write, attributes.within(write.request.namespace(), driver)) {
            Ok(()) => return Ok(()),
            Err(refused) => first = first.or(Some(refused)),
        }
    }
    first.map_or(Ok(()), Err)
}

/// Drivers of whose devices something else is said than before.
fn changed_drivers<'a>(
    new: &'a ResourceClaimStatus,
    old: &'a ResourceClaimStatus,
) -> BTreeSet<&'a str> {
    type Key<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);
    fn by_key(status: &ResourceClaimStatus) -> BTreeMap<Key<'_>, &AllocatedDeviceStatus> {
        let all = status.devices.iter().flatten();
        all.map(|it| ((&*it.driver, &*it.pool, &*it.device, it.share_id.as_deref()), it)).collect()
    }
    let (new, old) = (by_key(new), by_key(old));
    let keys = new.keys().chain(old.keys());
    keys.filter(|it| new.get(*it) != old.get(*it)).map(|it| it.0).collect()
}

/// The one node that an allocation is for, if it is for one.
fn node_of(allocation: &AllocationResult) -> Option<&str> {
    let [term] = &allocation.node_selector.as_ref()?.node_selector_terms[..] else { return None };
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let [field] = term.match_fields.as_deref()? else { return None };
    let [name] = field.values.as_deref()? else { return None };
    let is_name = field.key == "metadata.name" && field.operator == "In";
    (expressions.is_empty() && is_name).then_some(name)
}

/// Whether it is a service account of a pod that runs there.
fn is_on_node(user: &User, node: &str) -> bool {
    let nodes = user.extra.get(NODE_NAME).map(Vec::as_slice).unwrap_or_default();
    user.name.starts_with("system:serviceaccount:") && nodes.len() == 1 && nodes[0] == node
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

    use super::*;

    fn device(driver: &str, device: &str) -> AllocatedDeviceStatus {
        AllocatedDeviceStatus {
            driver: driver.to_owned(),
            pool: "p".to_owned(),
            device: device.to_owned(),
            ..AllocatedDeviceStatus::default()
        }
    }

    fn status(devices: &[AllocatedDeviceStatus]) -> ResourceClaimStatus {
        ResourceClaimStatus { devices: Some(devices.to_vec()), ..ResourceClaimStatus::default() }
    }

    #[test]
    fn drivers_of_devices_that_come_go_or_change_are_asked_for() {
        let changed = AllocatedDeviceStatus { conditions: Some(Vec::new()), ..device("c", "0") };
        let old = status(&[device("a", "0"), device("b", "0"), device("c", "0")]);
        let new = status(&[device("a", "0"), changed, device("d", "0")]);
        assert_eq!(changed_drivers(&new, &old), BTreeSet::from(["b", "c", "d"]));
        assert!(changed_drivers(&old, &old).is_empty());
    }

    #[test]
    fn an_allocation_is_for_a_node_if_it_names_one() {
        let field = NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec!["node-a".to_owned()]),
        };
        let term = |fields: Vec<NodeSelectorRequirement>| AllocationResult {
            node_selector: Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_fields: Some(fields),
                    ..NodeSelectorTerm::default()
                }],
            }),
            ..AllocationResult::default()
        };
        assert_eq!(node_of(&term(vec![field.clone()])), Some("node-a"));
        assert_eq!(node_of(&term(vec![field.clone(), field])), None);
        assert_eq!(node_of(&AllocationResult::default()), None);
        let mut user = User::new("system:serviceaccount:n:driver", &[]);
        assert!(!is_on_node(&user, "node-a"));
        user.extra.insert(NODE_NAME.to_owned(), vec!["node-a".to_owned()]);
        assert!(is_on_node(&user, "node-a") && !is_on_node(&user, "node-b"));
    }
}
