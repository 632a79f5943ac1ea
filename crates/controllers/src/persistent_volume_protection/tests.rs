//! A volume in, who uses it and what becomes of its finalizer out.

use api::core::PersistentVolume;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{FINALIZER, users};
use crate::protection::{explain, plan};

fn volume(phase: &str, is_deleting: bool, finalizers: &[&str]) -> PersistentVolume {
    let deletion = is_deleting.then_some("2026-01-01T00:00:00Z");
    let meta = json!({"name": "a", "finalizers": finalizers, "deletionTimestamp": deletion});
    let claim = json!({"namespace": "shop", "name": "data", "uid": "u"});
    let spec = json!({"claimRef": claim, "hostPath": {"path": "/x"}});
    let status = json!({"phase": phase});
    serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": status})).unwrap()
}

/// What the finalizers are to be, if others than they are.
fn written(volume: &PersistentVolume) -> Option<Vec<String>> {
    let wanted = plan(volume, FINALIZER, !users(volume).is_empty())?;
    Some(wanted.metadata.finalizers.unwrap_or_default())
}

fn check(phase: &str, is_deleting: bool, finalizers: &[&str], expected: Option<&[&str]>) {
    let expected = expected.map(|it| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    let volume = volume(phase, is_deleting, finalizers);
    assert_eq!(written(&volume), expected, "{phase} {is_deleting} {finalizers:?}");
}

#[test]
fn a_volume_goes_when_it_is_not_bound_any_more() {
    check("Bound", true, &[FINALIZER], None);
    for phase in ["Available", "Pending", "Released", "Failed"] {
        check(phase, true, &["mine", FINALIZER], Some(&["mine"]));
    }
    check("Released", true, &["mine"], None);
}

#[test]
fn a_volume_that_nobody_deletes_is_protected() {
    check("Available", false, &["mine"], Some(&["mine", FINALIZER]));
    check("Bound", false, &[FINALIZER], None);
    check("Available", true, &[], None);
}

#[test]
fn the_claim_that_a_volume_waits_for_is_named() {
    let said = |volume: &PersistentVolume| explain("claims", &users(volume));
    let text = "it is deleted when nothing uses it any more; claims: shop/data";
    assert_eq!(said(&volume("Bound", true, &[])), Some(("InUse", text.to_owned())));
    assert_eq!(said(&volume("Released", true, &[])), None);
    let mut unnamed = volume("Bound", true, &[]);
    unnamed.spec = serde_json::from_value(Value::Null).unwrap();
    assert_eq!(users(&unnamed), ["one that the volume does not name"]);
}

proptest! {
    #[test]
    fn one_write_is_enough_and_a_bound_volume_keeps_its_finalizer(
        phase in prop::sample::select(vec!["Bound", "Released", "Available"]),
        is_deleting: bool,
        finalizers in prop::collection::vec(prop::sample::select(vec![FINALIZER, "mine"]), 0..3),
    ) {
        let before = volume(phase, is_deleting, &finalizers);
        let plan = |it: &PersistentVolume| written(it).into_iter().collect();
        let apply = |it: &mut PersistentVolume, finalizers| it.metadata.finalizers = Some(finalizers);
        let rested = converges(plan, apply, before, 1).unwrap();
        let is_held = rested.metadata.finalizers.unwrap_or_default().iter().any(|it| it == FINALIZER);
        let was_held = finalizers.contains(&FINALIZER);
        prop_assert_eq!(is_held, !is_deleting || (was_held && phase == "Bound"));
    }
}
