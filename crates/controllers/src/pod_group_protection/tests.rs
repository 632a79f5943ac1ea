//! A group and its pods in, whether it goes out.

use api::scheduling::PodGroup;
use serde_json::json;

use super::plan::{FINALIZER, plan};

fn check(is_deleting: bool, finalizers: &[&str], n_pods: usize, expected: Option<&[&str]>) {
    let deletion = is_deleting.then_some("2026-01-01T00:00:00Z");
    let meta = json!({"name": "a", "finalizers": finalizers, "deletionTimestamp": deletion});
    let spec = json!({"schedulingPolicy": {}});
    let group: PodGroup = serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap();
    let released = plan(&group, n_pods);
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
