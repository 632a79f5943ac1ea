//! Which bundles of the signer there should be: one. Pure.

use std::sync::Arc;

use api::Identified as _;
use api::certificates::ClusterTrustBundle;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};

pub(super) const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// Of the hash in the name.
const BYTES: usize = 12;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Create(ClusterTrustBundle),
    Update(ClusterTrustBundle),
    Delete { name: String, uid: String },
}

pub(super) fn is_ours(bundle: &ClusterTrustBundle) -> bool {
    bundle.spec.signer_name.as_deref() == Some(SIGNER)
}

/// The right one first, so that there is always one.
pub(super) fn plan(bundles: &[Arc<ClusterTrustBundle>], root_ca: &str) -> Vec<Action> {
    let wanted = name(root_ca);
    let ours: Vec<&Arc<ClusterTrustBundle>> = bundles.iter().filter(|it| is_ours(it)).collect();
    let mut actions = Vec::new();
    match ours.iter().find(|it| it.key().name == wanted) {
        None => actions.push(Action::Create(bundle(&wanted, root_ca))),
        Some(found) if found.spec.trust_bundle != root_ca => {
            let mut right = ClusterTrustBundle::clone(found);
            root_ca.clone_into(&mut right.spec.trust_bundle);
            actions.push(Action::Update(right));
        }
        Some(_) => {}
    }
    let others = ours.iter().filter(|it| it.key().name != wanted && !it.is_deleting());
    actions
        .extend(others.map(|it| Action::Delete { name: it.key().name, uid: it.uid().to_owned() }));
    actions
}

/// The signer's, with as much of the hash as tells authorities apart.
pub(super) fn name(root_ca: &str) -> String {
    let hash = Sha256::digest(root_ca);
    let hash: String = hash.iter().take(BYTES).map(|it| format!("{it:02x}")).collect();
    format!("{}:{hash}", SIGNER.replace('/', ":"))
}

fn bundle(name: &str, root_ca: &str) -> ClusterTrustBundle {
    let mut bundle = ClusterTrustBundle {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ClusterTrustBundle::default()
    };
    bundle.spec.signer_name = Some(SIGNER.to_owned());
    root_ca.clone_into(&mut bundle.spec.trust_bundle);
    bundle
}
