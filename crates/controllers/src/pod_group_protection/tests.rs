//! A group and its pods in, whether it goes out.

use api::scheduling::PodGroup;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::{FINALIZER, plan};

fn group(is_deleting: bool, finalizers: &[&str]) -> PodGroup {
    let deletion = is_deleting.then_some("2026-01-01T00:00:00Z");
    let meta = json!({"name": "a", "finalizers": finalizers, "deletionTimestamp": deletion});
    let spec = json!({"schedulingPolicy": {}});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

fn check(is_deleting: bool, finalizers: &[&str], n_pods: usize, expected: Option<&[&str]>) {
    let released = plan(&group(is_deleting, finalizers), n_pods);
    let left = released.as_ref().map(|it| it.metadata.finalizers.clone().unwrap_or_default());
    let expected = expected.map(|it| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(left, expected, "{is_deleting} {finalizers:?} {n_pods}");
    assert!(released.is_none_or(|it| plan(&it, n_pods).is_none()), "it comes to rest");
}

#[test]
fn a_group_goes_when_none_of_its_pods_runs() {
    check(true, &[FINALIZER], 0, Some(&[]));
    check(true, &["mine", FINALIZER], 0, Some(&["mine"]));
    check(true, &[FINALIZER], 1, None);
    check(false, &[FINALIZER], 0, None);
    check(true, &["mine"], 0, None);
}

proptest! {
    #[test]
    fn one_write_is_enough_and_none_is_made_while_pods_run(
        is_deleting: bool,
        finalizers in prop::collection::vec(prop::sample::select(vec![FINALIZER, "mine", "b"]), 0..4),
        n_pods in 0..3_usize,
    ) {
        let before = group(is_deleting, &finalizers);
        let plan = |it: &PodGroup| plan(it, n_pods).into_iter().collect();
        let rested = converges(plan, |it, released| *it = released, before.clone(), 1).unwrap();
        if !is_deleting || n_pods > 0 {
            prop_assert_eq!(rested, before);
        } else {
            let left = rested.metadata.finalizers.unwrap_or_default();
            let others = finalizers.iter().filter(|it| **it != FINALIZER);
            prop_assert_eq!(left.iter().collect::<Vec<_>>(), others.collect::<Vec<_>>());
        }
    }
}
