//! Manifest in; problems and defaults out.

use serde_json::{Value, json};

use super::Namespace;
use crate::kind::{Part, Resource};
use crate::testing::{check_created, check_update, created, defaulted};

fn namespace() -> Value {
    json!({"metadata": {"name": "a"}})
}

#[test]
fn a_new_namespace_is_active_and_held() {
    check_created::<Namespace>(namespace(), "/status", json!({"phase": "Active"}));
    check_created::<Namespace>(namespace(), "/spec/finalizers", json!(["kubernetes"]));
    check_created::<Namespace>(
        namespace(),
        "/metadata/labels",
        json!({"kubernetes.io/metadata.name": "a"}),
    );
}

#[test]
fn only_finalize_lets_go() {
    let stored = created::<Namespace>(namespace());
    let check = |part: Part, expected: Option<&[&str]>| {
        let mut object = defaulted::<Namespace>(namespace());
        object.prepare_update(&stored, part);
        let expected = expected.map(|it| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(object.spec.and_then(|it| it.finalizers), expected);
    };
    check(Part::Main, Some(&["kubernetes"]));
    check(Part::Status, Some(&["kubernetes"]));
    check(Part::Other("finalize"), None);
}

#[test]
fn the_phase_follows_the_deletion() {
    let stored = created::<Namespace>(namespace());
    let mut update = namespace();
    update["status"] = json!({"phase": "Terminating"});
    check_update(
        &stored,
        update,
        Part::Status,
        &[
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
        ],
    );
}
