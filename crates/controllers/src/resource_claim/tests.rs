//! Pods and claims in, what is made, named, reserved and given back out.

use std::sync::Arc;

use api::core::pod::PodView;
use api::object::meta_of;
use api::resource::{ResourceClaim, ResourceClaimTemplate};
use api::{Resource as _, Stored, View as _};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::claim::{self, Consumer, FINALIZER, Owner, Step, reserved};
use super::pod::{self, Observed, base};

/// The pod `web` with these claims in its spec and its status.
fn pod(node: &str, claims: Value, statuses: Value) -> PodView {
    let manifest = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
        "spec": {"nodeName": node, "containers": [], "resourceClaims": claims},
        "status": {"phase": "Pending", "resourceClaimStatuses": statuses},
    });
    let bytes: bytes::Bytes = manifest.to_string().into();
    let pod = api::core::Pod::decode(&bytes).unwrap();
    PodView::read(&Stored::new(meta_of(pod.metadata(), Vec::new()), bytes)).unwrap()
}

/// Named so; of the pod with that uid, as which it knows it; allocated, and reserved for these.
fn claim(name: &str, owner: Option<(&str, &str)>, used_by: Option<&[&str]>) -> ResourceClaim {
    let users = used_by.unwrap_or_default().iter();
    let users: Vec<Value> =
        users.map(|it| json!({"resource": "pods", "name": it, "uid": it})).collect();
    let owners = owner.map(|(uid, _)| {
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true}])
    });
    let annotations =
        owner.map(|(_, known_as)| json!({"resource.kubernetes.io/pod-claim-name": known_as}));
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name,
            "ownerReferences": owners, "annotations": annotations,
        },
        "spec": {},
        "status": {"allocation": used_by.map(|_| json!({})), "reservedFor": users},
    }))
    .unwrap()
}

/// What is planned for a pod, in one line.
fn check(pod: &PodView, claims: &[ResourceClaim], templates: &[&str], expected: &str) {
    let template = |it: &&str| -> Arc<ResourceClaimTemplate> {
        let manifest = json!({
            "metadata": {"name": it, "namespace": "default"},
            "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {}},
        });
        Arc::new(serde_json::from_value(manifest).unwrap())
    };
    let all: Vec<Arc<ResourceClaim>> = claims.iter().cloned().map(Arc::new).collect();
    let is_made = |it: &&Arc<ResourceClaim>| pod::owner(it).is_some_and(|it| it.uid == "u1");
    let observed = Observed {
        pod,
        made: all.iter().filter(is_made).cloned().collect(),
        claims: all.clone(),
        templates: templates.iter().map(template).collect(),
    };
    let plan = pod::plan(&observed);
    let mut words: Vec<String> = plan.wishes.iter().map(|it| format!("make {}", it.name)).collect();
    words.extend(plan.names.iter().map(|(name, claim)| format!("name {name}={claim}")));
    words.extend(
        plan.reserve
            .iter()
            .map(|it| format!("reserve {}", it.metadata.name.as_deref().unwrap_or_default())),
    );
    words.extend(plan.complaints.iter().map(|(name, why)| format!("{name}: {why}")));
    assert_eq!(words.join("; "), expected);
}

fn by_template() -> Value {
    json!([{"name": "gpu", "resourceClaimTemplateName": "large"}])
}

#[test]
fn a_claim_is_made_from_its_template_once() {
    let fresh = pod("", by_template(), json!([]));
    check(&fresh, &[], &["large"], "make gpu");
    // The status did not get its name.
    check(
        &fresh,
        &[claim("web-gpu-x", Some(("u1", "gpu")), None)],
        &["large"],
        "name gpu=web-gpu-x",
    );
    let named = pod("", by_template(), json!([{"name": "gpu", "resourceClaimName": "web-gpu-x"}]));
    check(&named, &[claim("web-gpu-x", Some(("u1", "gpu")), None)], &["large"], "");
    // It was deleted by mistake, or is another pod's.
    check(&named, &[], &["large"], "make gpu");
    check(&named, &[claim("web-gpu-x", Some(("u2", "gpu")), None)], &["large"], "make gpu");
    // None is needed.
    let without = pod("", by_template(), json!([{"name": "gpu"}]));
    check(&without, &[], &["large"], "");
}

#[test]
fn a_template_that_is_missing_is_complained_about() {
    let why = r#"gpu: resource claim template "large": resourceclaimtemplate.resource.k8s.io "large" not found"#;
    check(&pod("", by_template(), json!([])), &[], &[], why);
}

#[test]
fn a_claim_that_somebody_made_is_theirs() {
    let claims = json!([{"name": "gpu", "resourceClaimName": "shared"}]);
    check(&pod("", claims.clone(), json!([])), &[], &["large"], "");
    let allocated = claim("shared", None, Some(&[]));
    check(&pod("", claims.clone(), json!([])), std::slice::from_ref(&allocated), &[], "");
    let bound = pod("n1", claims, json!([]));
    check(&bound, &[allocated], &[], "reserve shared");
    check(&bound, &[claim("shared", None, None)], &[], "");
    check(&bound, &[claim("shared", None, Some(&["u1"]))], &[], "");
}

#[test]
fn names_of_claims_keep_a_share_of_both() {
    assert_eq!(base("web", "gpu"), "web-gpu-");
    let long = base(&"p".repeat(63), &"c".repeat(63));
    assert_eq!(long, format!("{}-{}", "p".repeat(28), "c".repeat(28)));
}

#[test]
fn a_claim_from_a_template_is_its_pods() {
    let template: ResourceClaimTemplate = serde_json::from_value(json!({
        "metadata": {"name": "large"},
        "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {}},
    }))
    .unwrap();
    let made = pod::claim(&pod("", by_template(), json!([])), &template, "gpu");
    let meta = serde_json::to_value(&made.metadata).unwrap();
    let expected = json!({
        "generateName": "web-gpu-",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1", "controller": true},
        ],
    });
    assert_eq!(meta, expected);
}

/// A claim with our finalizer, allocated where it has users at all; `!` is being deleted.
fn protected(users: &[&str], is_deleting: bool) -> ResourceClaim {
    let mut claim = claim("one", None, Some(users));
    claim.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    if is_deleting {
        let time = "2026-01-01T00:00:00Z".parse().unwrap();
        claim.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
    }
    claim
}

fn step(claim: &ResourceClaim, consumers: &[Consumer], has_released: bool) -> String {
    match claim::plan(claim, consumers, None, has_released) {
        None => "-".to_owned(),
        Some(Step::Release { reserved_for, deallocates }) => {
            let left: Vec<&str> = reserved_for.iter().map(|it| it.uid.as_str()).collect();
            format!("release to {}{}", left.join(","), if deallocates { " free" } else { "" })
        }
        Some(it) => format!("{it:?}"),
    }
}

#[test]
fn devices_come_back_with_the_last_who_used_them() {
    use Consumer::{Over, Stays};
    assert_eq!(step(&protected(&["a", "b"], false), &[Stays, Stays], false), "-");
    assert_eq!(step(&protected(&["a", "b"], false), &[Over, Stays], false), "release to b");
    assert_eq!(step(&protected(&["a"], false), &[Over], false), "release to  free");
    // Nobody has used it yet.
    assert_eq!(step(&protected(&[], false), &[], false), "-");
    assert_eq!(step(&protected(&[], true), &[], false), "release to  free");
    let mut free = protected(&[], false);
    free.status.as_mut().unwrap().allocation = None;
    assert_eq!(step(&free, &[], false), "-");
    assert_eq!(step(&free, &[], true), "Unprotect");
    // Whoever allocated it without our finalizer takes it back themselves.
    assert_eq!(step(&claim("one", None, Some(&["a"])), &[Over], false), "release to ");
}

#[test]
fn a_claim_goes_with_the_pod_that_it_was_made_for() {
    let made = claim("one", Some(("u1", "gpu")), None);
    assert_eq!(claim::plan(&made, &[], Some(Owner::Over), false), Some(Step::Delete));
    assert_eq!(claim::plan(&made, &[], Some(Owner::Stays), false), None);
    assert_eq!(claim::plan(&made, &[], None, false), None);
}

/// The claim as the API has it after the step.
fn apply(claim: &mut ResourceClaim, step: &Step) {
    match step {
        Step::Release { reserved_for, deallocates } => {
            let status = claim.status.get_or_insert_default();
            status.reserved_for = Some(reserved_for.clone());
            if *deallocates {
                status.allocation = None;
            }
        }
        Step::Unprotect => claim.metadata.finalizers = None,
        Step::Delete => {
            let time = "2026-01-01T00:00:00Z".parse().unwrap();
            claim.metadata.deletion_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        }
    }
}

proptest! {
    #[test]
    fn whoever_uses_a_claim_it_comes_to_rest_and_nobody_who_stays_loses_it(
        users in proptest::collection::vec(any::<bool>(), 0..6),
        is_deleting in any::<bool>(),
        is_protected in any::<bool>(),
        owner in proptest::option::of(any::<bool>()),
    ) {
        let names: Vec<String> = (0..users.len()).map(|it| it.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut claim = protected(&names, is_deleting);
        if !is_protected {
            claim.metadata.finalizers = None;
        }
        let stays = |it: &str| users[it.parse::<usize>().unwrap()];
        let owner = owner.map(|it| if it { Owner::Stays } else { Owner::Over });
        let rested = converges(
            |(claim, has_released): &(ResourceClaim, bool)| {
                let of = |uid: &str| if stays(uid) { Consumer::Stays } else { Consumer::Over };
                let consumers: Vec<Consumer> = reserved(claim).iter().map(|it| of(&it.uid)).collect();
                claim::plan(claim, &consumers, owner, *has_released).into_iter().collect()
            },
            |(claim, has_released), step| {
                *has_released |= matches!(step, Step::Release { .. });
                apply(claim, &step);
            },
            (claim, false),
            3,
        );
        let (claim, _) = rested.unwrap();
        let left: Vec<&str> = reserved(&claim).iter().map(|it| it.uid.as_str()).collect();
        let wanted: Vec<&str> = names.iter().copied().filter(|it| stays(it)).collect();
        prop_assert_eq!(&left, &wanted);
        if !left.is_empty() {
            prop_assert!(claim.status.unwrap().allocation.is_some());
        }
    }
}
