//! Bundles in, what is published and taken away out.

use std::sync::Arc;

use api::certificates::ClusterTrustBundle;
use proptest::prelude::*;
use reconcile::testing::converges;

use super::plan::{Action, SIGNER, name, plan};

fn bundle(name: &str, signer: &str, content: &str) -> Arc<ClusterTrustBundle> {
    let mut bundle = ClusterTrustBundle::default();
    bundle.metadata.name = Some(name.to_owned());
    bundle.metadata.uid = Some(name.to_owned());
    bundle.spec.signer_name = Some(signer.to_owned());
    bundle.spec.trust_bundle = content.to_owned();
    Arc::new(bundle)
}

fn check(bundles: &[Arc<ClusterTrustBundle>], expected: &[&str]) {
    let of = |it: &ClusterTrustBundle| it.metadata.name.clone().unwrap_or_default();
    let words: Vec<String> = plan(bundles, "ca")
        .iter()
        .map(|it| match it {
            Action::Create(it) => format!("create {}", of(it)),
            Action::Update(it) => format!("update {}", of(it)),
            Action::Delete { name, .. } => format!("delete {name}"),
        })
        .collect();
    assert_eq!(words, expected);
    rest(bundles.to_vec());
}

fn rest(bundles: Vec<Arc<ClusterTrustBundle>>) -> Vec<Arc<ClusterTrustBundle>> {
    let of = |it: &ClusterTrustBundle| it.metadata.name.clone().unwrap_or_default();
    let rested = converges(
        |state: &Vec<Arc<ClusterTrustBundle>>| plan(state, "ca"),
        |state, action| match action {
            Action::Create(it) => state.push(Arc::new(it)),
            Action::Update(it) => {
                state.retain(|other| of(other) != of(&it));
                state.push(Arc::new(it));
            }
            Action::Delete { name, .. } => state.retain(|it| of(it) != name),
        },
        bundles,
        1,
    );
    rested.unwrap()
}

#[test]
fn there_is_one_bundle_and_it_is_right() {
    let right = name("ca");
    assert_eq!(right, "kubernetes.io:kube-apiserver-serving:6959097001d10501ac7d54c0");
    check(&[], &[&format!("create {right}")]);
    check(&[bundle(&right, SIGNER, "ca")], &[]);
    check(&[bundle(&right, SIGNER, "else")], &[&format!("update {right}")]);
    let old = bundle("kubernetes.io:kube-apiserver-serving:old", SIGNER, "old");
    let deleted = "delete kubernetes.io:kube-apiserver-serving:old";
    check(&[bundle(&right, SIGNER, "ca"), old.clone()], &[deleted]);
    check(&[old], &[&format!("create {right}"), deleted]);
    check(&[bundle("a", "example.org/a", "x")], &[&format!("create {right}")]);
}

proptest! {
    #[test]
    fn one_round_is_enough_and_other_signers_keep_theirs(
        drawn in prop::collection::btree_map(0..6_usize, (any::<bool>(), any::<bool>()), 0..6),
    ) {
        let named = |index: usize| if index == 0 { name("ca") } else { format!("b{index}") };
        let bundles: Vec<_> = drawn
            .iter()
            .map(|(index, (is_ours, is_right))| {
                // Whatever has the name of the right one is the signer's: its name begins with it.
                let signer = if *is_ours || *index == 0 { SIGNER } else { "example.org/a" };
                bundle(&named(*index), signer, if *is_right { "ca" } else { "old" })
            })
            .collect();
        let signers = |all: &[Arc<ClusterTrustBundle>]| {
            let others = all.iter().filter(|it| it.spec.signer_name.as_deref() != Some(SIGNER));
            others.map(|it| it.metadata.name.clone()).collect::<Vec<_>>()
        };
        let rested = rest(bundles.clone());
        prop_assert_eq!(signers(&rested), signers(&bundles));
        let ours: Vec<_> =
            rested.iter().filter(|it| it.spec.signer_name.as_deref() == Some(SIGNER)).collect();
        prop_assert_eq!(ours.len(), 1);
        prop_assert_eq!(&ours[0].spec.trust_bundle, "ca");
    }
}
