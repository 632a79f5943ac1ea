//! Whether a pod that was given to this node can run here. Pure; reasons and texts as upstream's
//! (pkg/kubelet/lifecycle/predicate.go).

mod affinity;
mod confinement;
pub(crate) mod fields;
mod sysctls;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};

use crate::context::Context;

/// Why not: `status.reason`, and what follows `Pod was rejected: `.
pub(crate) type Rejection = (String, String);

/// What the pods that are here take: `cpu` in thousandths, the rest in whole units.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pub(crate) n_pods: i64,
    pub(crate) resources: BTreeMap<String, i64>,
}

impl Used {
    pub(crate) fn add(&mut self, spec: &PodSpec) {
        self.n_pods += 1;
        for (name, amount) in api::core::pod::requests(spec) {
            *self.resources.entry(name).or_default() += amount;
        }
    }
}

/// What no node like this one runs, whatever else is here. Static pods are asked the same.
pub(crate) fn admit_kind(pod: &Pod, context: &Context) -> Result<(), Rejection> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let machine = &context.parts.machine;
    if spec.os.as_ref().is_some_and(|it| it.name != "linux") {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return Err(("PodOSNotSupported".to_owned(), message.to_owned()));
    }
    sysctls::admit(spec, &machine.kernel_version, &context.config.allowed_unsafe_sysctls)?;
    confinement::admit(pod, spec, machine)?;
    fields::admit(pod)
}

/// `node` is the Node as the API has it, if it is known: its labels may be others than ours.
pub(crate) fn admit(
    spec: &PodSpec,
    used: &Used,
    allocatable: &BTreeMap<String, i64>,
    node: Option<&Node>,
) -> Result<(), Rejection> {
    fits(spec, used, allocatable)?;
    match node {
        Some(node) if !affinity::matches(spec, node) => Err((
            "NodeAffinity".to_owned(),
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

fn fits(spec: &PodSpec, used: &Used, allocatable: &BTreeMap<String, i64>) -> Result<(), Rejection> {
    let capacity = |name: &str| allocatable.get(name).copied().unwrap_or(0);
    if used.n_pods + 1 > capacity("pods") {
        return Err(rejection("pods", 1, used.n_pods, capacity("pods")));
    }
    for (name, requested) in api::core::pod::requests(spec) {
        let taken = used.resources.get(&name).copied().unwrap_or(0);
        if requested > 0 && taken.saturating_add(requested) > capacity(&name) {
            return Err(rejection(&name, requested, taken, capacity(&name)));
        }
    }
    Ok(())
}

fn rejection(resource: &str, requested: i64, used: i64, capacity: i64) -> Rejection {
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    (format!("OutOf{resource}"), message)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, PodSpec};
    use serde_json::{Value, json};

    use super::{Used, admit};

    fn check(spec: Value, expected: Option<&str>) {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let mut used = Used::default();
        used.add(&serde_json::from_value(pod("1", "1Gi")).unwrap());
        let allocatable = [("cpu", 4000), ("memory", 4 << 30), ("pods", 2)];
        let allocatable =
            allocatable.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
        let node: Node = serde_json::from_value(
            json!({ "metadata": { "name": "n1", "labels": { "disk": "ssd", "size": "9" } } }),
        )
        .unwrap();
        let rejection = admit(&spec, &used, &allocatable, Some(&node)).err();
        let text = rejection.map(|(reason, message)| format!("{reason}: {message}"));
        assert_eq!(text.as_deref(), expected);
        if expected.is_none() {
            used.n_pods = 2;
            let (reason, _) = admit(&spec, &used, &allocatable, Some(&node)).unwrap_err();
            assert_eq!(reason, "OutOfpods");
        }
    }

    fn pod(cpu: &str, memory: &str) -> Value {
        let requests = json!({ "cpu": cpu, "memory": memory });
        json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] })
    }

    #[test]
    fn a_pod_that_does_not_fit_is_told_what_is_missing() {
        check(pod("3", "1Gi"), None);
        check(
            pod("3500m", "1Gi"),
            Some(
                "OutOfcpu: Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000",
            ),
        );
        check(
            pod("1", "4Gi"),
            Some(
                "OutOfmemory: Node didn't have enough resource: memory, requested: 4294967296, used: 1073741824, capacity: 4294967296",
            ),
        );
    }

    #[test]
    fn labels_of_the_node_count() {
        let refused = Some(
            "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        );
        let with = |selector: Value| json!({ "containers": [], "nodeSelector": selector });
        check(with(json!({ "disk": "ssd" })), None);
        check(with(json!({ "disk": "hdd" })), refused);
        let affinity = |expression: Value| {
            json!({ "containers": [], "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                    { "matchExpressions": [expression] }] } } } })
        };
        check(affinity(json!({ "key": "disk", "operator": "In", "values": ["ssd"] })), None);
        check(affinity(json!({ "key": "disk", "operator": "NotIn", "values": ["ssd"] })), refused);
        check(affinity(json!({ "key": "gpu", "operator": "Exists" })), refused);
        check(affinity(json!({ "key": "gpu", "operator": "DoesNotExist" })), None);
        check(affinity(json!({ "key": "size", "operator": "Gt", "values": ["5"] })), None);
        check(affinity(json!({ "key": "size", "operator": "Lt", "values": ["5"] })), refused);
    }
}
