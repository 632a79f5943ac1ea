//! PodGroups in, refusals out.

use api::scheduling::PodGroup;
use apimachinery::User;
use features::Gates;
use serde_json::{Value, json};

use super::PodGroupWorkloadExists;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn check(gates: &str, workload: &Value) -> Result<(), String> {
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, "scheduling.k8s.io/podgroups", &user);
    let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
    let spec = json!({"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": reference});
    let metadata = json!({"name": "web", "namespace": "ns"});
    let group: PodGroup = decode(&json!({"metadata": metadata, "spec": spec}));
    let objects = Objects::default().with("workloads", workload);
    let plugin = PodGroupWorkloadExists::new(&Gates::parse(gates).unwrap());
    let outcome = case.run(plugin, objects, (Some(&group), None));
    outcome.map(|_| ()).map_err(|err| err.message().to_owned())
}

#[test]
fn the_template_is_there() {
    let on = "GenericWorkload=true";
    let workload = |name: &str, template: &str| {
        let templates = json!([{"name": template, "schedulingPolicy": {"basic": {}}}]);
        let metadata = json!({"name": name, "namespace": "ns"});
        json!({"metadata": metadata, "spec": {"podGroupTemplates": templates}})
    };
    assert!(check(on, &workload("w", "t")).is_ok());
    let refused = "podgroups.scheduling.k8s.io \"web\" is forbidden: PodGroup rejected: ";
    assert_eq!(
        check(on, &workload("v", "t")).unwrap_err(),
        format!("{refused}Workload \"w\" not found")
    );
    assert_eq!(
        check(on, &workload("w", "u")).unwrap_err(),
        format!("{refused}PodGroupTemplate \"t\" not found in Workload \"w\"")
    );
    let mut leaving = workload("w", "t");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        check(on, &leaving).unwrap_err(),
        format!("{refused}Workload \"w\" is being deleted")
    );
    assert!(check("", &workload("v", "t")).is_ok());
}
