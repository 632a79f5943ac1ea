//! Which nodes a DaemonSet runs on, and the pod that it makes for one. Pure.

use api::apps::DaemonSet;
use api::core::node::{NodeView, fit};
use api::core::pod::{Pod, PodView};
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    Toleration,
};

use crate::pod_control;

pub(super) const HASH: &str = "controller-revision-hash";
pub(super) const GENERATION: &str = "pod-template-generation";
const NAME_FIELD: &str = "metadata.name";

/// What daemons bear wherever they run: they are there to help nodes in trouble.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NETWORK_UNAVAILABLE: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// What the set says of nodes, ready to be asked about many.
pub(super) struct Demands {
    spec: PodSpec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// A pod should be there.
    pub should_run: bool,
    /// One that is there may stay.
    pub may_stay: bool,
}

impl Demands {
    pub(super) fn of(set: &DaemonSet) -> Self {
        let spec = set.spec.as_ref().and_then(|it| it.template.spec.clone());
        let mut spec = spec.unwrap_or_default();
        tolerate(&mut spec);
        Self { spec }
    }

    pub(super) fn judge(&self, node: &NodeView) -> Verdict {
        let name = self.spec.node_name.as_deref().unwrap_or_default();
        let fits = (name.is_empty() || name == node.name()) && self.selects(node);
        if !fits {
            return Verdict { should_run: false, may_stay: false };
        }
        let tolerations = self.spec.tolerations.as_deref().unwrap_or_default();
        let repels = |effects: &[&str]| {
            node.taints.iter().any(|taint| {
                effects.contains(&taint.effect.as_str())
                    && !tolerations.iter().any(|it| fit::tolerates(it, taint))
            })
        };
        let should_run = !repels(&["NoSchedule", "NoExecute"]);
        Verdict { should_run, may_stay: should_run || !repels(&["NoExecute"]) }
    }

    fn selects(&self, node: &NodeView) -> bool {
        let mut selector = self.spec.node_selector.iter().flatten();
        let has_labels =
            selector.all(|(key, value)| node.meta.labels.get(key) == Some(value.as_str()));
        let affinity = self.spec.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
        let required =
            affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
        let label = |name: &str| node.meta.labels.get(name);
        has_labels
            && required.is_none_or(|it| {
                let terms = &it.node_selector_terms;
                terms.iter().any(|it| fit::matches_term(it, label, node.name()))
            })
    }
}

fn tolerate(spec: &mut PodSpec) {
    let extra = (spec.host_network == Some(true)).then_some(NETWORK_UNAVAILABLE);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED.iter().copied().chain(extra) {
        let wanted = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let is_same = |it: &Toleration| {
            it.key == wanted.key
                && it.effect == wanted.effect
                && it.operator == wanted.operator
                && it.value.as_deref().unwrap_or_default().is_empty()
        };
        match tolerations.iter_mut().find(|it| is_same(it)) {
            Some(it) => *it = wanted,
            None => tolerations.push(wanted),
        }
    }
}

/// The generation of the template, for pods of clusters that knew no revisions.
pub(super) fn template_generation(set: &DaemonSet) -> Option<i64> {
    let annotations = set.metadata.annotations.as_ref()?;
    annotations.get("deprecated.daemonset.template.generation")?.parse().ok()
}

/// The pod for a node: the scheduler binds it, and there is nowhere else for it.
pub(super) fn pod(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|it| it.template.clone()).unwrap_or_default();
    let mut pod = pod_control::from_template(set, &template);
    let labels = pod.metadata.labels.get_or_insert_default();
    if let Some(generation) = template_generation(set) {
        labels.insert(GENERATION.to_owned(), generation.to_string());
    }
    labels.insert(HASH.to_owned(), hash.to_owned());
    let spec = pod.spec.get_or_insert_default();
    tolerate(spec);
    pin(spec.affinity.get_or_insert_default(), node);
    pod
}

/// The name takes the place of all other terms: one of them would be enough.
fn pin(affinity: &mut Affinity, node: &str) {
    let requirement = NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term =
        NodeSelectorTerm { match_fields: Some(vec![requirement]), ..NodeSelectorTerm::default() };
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}

/// The node that a pod is on, or is for.
pub(super) fn target(pod: &PodView) -> Option<&str> {
    if let Some(node) = pod.node() {
        return Some(node);
    }
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields =
        required.node_selector_terms.iter().flat_map(|it| it.match_fields.iter().flatten());
    let mut named = fields.filter(|it| it.key == NAME_FIELD && it.operator == "In");
    match named.next()?.values.as_deref() {
        Some([node]) => Some(node),
        _ => None,
    }
}
