//! PodGroups in, finalizers out.

use api::scheduling::PodGroup;
use apimachinery::User;
use features::Gates;
use serde_json::{Value, json};

use super::PodGroupProtection;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

#[test]
fn a_group_gets_a_finalizer_where_there_are_groups() {
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, "scheduling.k8s.io/podgroups", &user);
    let spec = json!({"schedulingPolicy": {"basic": {}}});
    let group: PodGroup = decode(&json!({"metadata": {"name": "g"}, "spec": spec}));
    let made = |gates: &str| {
        let plugin = PodGroupProtection::new(&Gates::parse(gates).unwrap());
        case.run(plugin, Objects::default(), (Some(&group), None)).unwrap()["metadata"]
            ["finalizers"]
            .clone()
    };
    assert_eq!(made("GenericWorkload=true"), json!(["scheduling.k8s.io/podgroup-protection"]));
    assert_eq!(made(""), Value::Null);
}
