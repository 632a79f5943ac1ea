//! Which claims a pod still needs, and what they are made of. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Identified as _;
use api::core::pod::{PodClaim, PodView};
use api::resource::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Annotation of a claim: as what its pod knows it.
pub(super) const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
const RESERVED_MAX: usize = 256;
/// A hyphen and five letters fit behind it into a name of 63.
const BASE_LENGTH_MAX: usize = 57;

/// What is known about a pod that is not being deleted.
pub(super) struct Observed<'a> {
    pub(super) pod: &'a PodView,
    /// Those that it has by name.
    pub(super) claims: Vec<Arc<ResourceClaim>>,
    /// Those that were made for it.
    pub(super) made: Vec<Arc<ResourceClaim>>,
    pub(super) templates: Vec<Arc<ResourceClaimTemplate>>,
}

/// A claim to be made.
pub(super) struct Wish<'a> {
    pub(super) name: &'a str,
    pub(super) template: &'a ResourceClaimTemplate,
}

#[derive(Default)]
pub(super) struct Plan<'a> {
    /// What the status is to say, beside what will be made: claims by the pod's names for them.
    pub(super) names: BTreeMap<String, String>,
    pub(super) wishes: Vec<Wish<'a>>,
    /// Claims that are to be reserved for the pod.
    pub(super) reserve: Vec<Arc<ResourceClaim>>,
    /// What cannot be made, and why.
    pub(super) complaints: Vec<(String, String)>,
}

/// Whether it will not run, or not again.
pub(super) fn is_done(pod: &PodView) -> bool {
    pod.is_terminal() || (pod.is_deleting() && pod.node().is_none())
}

/// The pod that a claim was made for.
pub(super) fn owner(claim: &ResourceClaim) -> Option<&OwnerReference> {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.find(|it| it.controller == Some(true) && it.api_version == "v1" && it.kind == "Pod")
}

fn is_of(claim: &ResourceClaim, pod: &PodView) -> bool {
    owner(claim).is_some_and(|it| it.uid == pod.uid())
}

pub(super) fn plan<'a>(observed: &'a Observed<'_>) -> Plan<'a> {
    let mut plan = Plan::default();
    let claims = observed.pod.claims.iter().flat_map(|it| it.claims.iter());
    for pod_claim in claims {
        plan_one(observed, pod_claim, &mut plan);
    }
    plan
}

fn plan_one<'a>(observed: &'a Observed<'_>, pod_claim: &'a PodClaim, plan: &mut Plan<'a>) {
    let is_needed = pod_claim.made.as_deref() != Some("");
    let found = pod_claim.resolved().and_then(|name| {
        let mut claims = observed.claims.iter();
        claims.find(|it| it.key().name == name)
    });
    // One that somebody named is theirs; one that was made is the pod's or none.
    let is_right =
        |it: &&Arc<ResourceClaim>| !pod_claim.claim.is_empty() || is_of(it, observed.pod);
    if let Some(claim) = found.filter(is_right) {
        if must_reserve(claim, observed.pod) {
            plan.reserve.push(claim.clone());
        }
        return;
    }
    if pod_claim.template.is_empty() || !is_needed {
        return;
    }
    // Made, but its name did not get into the status.
    let annotation = |it: &ResourceClaim| {
        it.metadata.annotations.as_ref().and_then(|it| it.get(POD_CLAIM)).cloned()
    };
    let mut made = observed.made.iter();
    if let Some(claim) = made.find(|it| annotation(it).as_deref() == Some(&*pod_claim.name)) {
        plan.names.insert(pod_claim.name.to_string(), claim.key().name);
        return;
    }
    let template = observed.templates.iter().find(|it| it.key().name == *pod_claim.template);
    match template {
        Some(template) => plan.wishes.push(Wish { name: &pod_claim.name, template }),
        None => {
            let name = &pod_claim.template;
            let why = format!(
                "resource claim template {name:?}: resourceclaimtemplate.resource.k8s.io {name:?} not found"
            );
            plan.complaints.push((pod_claim.name.to_string(), why));
        }
    }
}

/// The scheduler reserves for those that it binds; others come with a node.
fn must_reserve(claim: &ResourceClaim, pod: &PodView) -> bool {
    let Some(status) = claim.status.as_ref() else { return false };
    let reserved = status.reserved_for.as_deref().unwrap_or_default();
    pod.node().is_some()
        && !pod.is_terminal()
        && status.allocation.is_some()
        && reserved.len() < RESERVED_MAX
        && !reserved.iter().any(|it| it.uid == pod.uid())
}

/// As the template says, and the pod's.
pub(super) fn claim(pod: &PodView, template: &ResourceClaimTemplate, name: &str) -> ResourceClaim {
    let meta = template.spec.metadata.clone().unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(POD_CLAIM.to_owned(), name.to_owned());
    let key = pod.key();
    ResourceClaim {
        metadata: ObjectMeta {
            generate_name: Some(base(&key.name, name)),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: key.name,
                uid: pod.uid().to_owned(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            namespace: Some(key.namespace),
            annotations: Some(annotations),
            labels: meta.labels,
            ..ObjectMeta::default()
        },
        spec: template.spec.spec.clone(),
        ..ResourceClaim::default()
    }
}

/// Of two long names each loses its share.
pub(super) fn base(pod: &str, claim: &str) -> String {
    let whole = format!("{pod}-{claim}-");
    if whole.len() <= BASE_LENGTH_MAX {
        return whole;
    }
    let share = |text: &str| -> String {
        let length = text.len() * BASE_LENGTH_MAX / whole.len();
        text.chars().take(length).collect()
    };
    format!("{}-{}", share(pod), share(claim))
}
