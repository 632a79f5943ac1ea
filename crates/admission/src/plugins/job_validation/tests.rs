//! Jobs in, refusals out.

use api::batch::Job;
use apimachinery::User;
use features::Gates;
use serde_json::{Value, json};

use super::JobValidation;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn job(parallelism: i32, pods: &Value) -> Job {
    let metadata = json!({"name": "web", "namespace": "ns", "uid": "u"});
    let template = json!({"spec": pods});
    decode(
        &json!({"metadata": metadata, "spec": {"parallelism": parallelism, "template": template}}),
    )
}

fn group(policy: &str, owner: &str) -> Objects {
    let owners = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": owner, "controller": true}]);
    let metadata = json!({"name": "g", "namespace": "ns", "ownerReferences": owners});
    let policy = match policy {
        "gang" => json!({"gang": {"minCount": 2}}),
        _ => json!({"basic": {}}),
    };
    let group = json!({"metadata": metadata, "spec": {"schedulingPolicy": policy}});
    Objects::default().with("podgroups", &group)
}

#[test]
fn how_many_start_as_one_stays() {
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Update, "batch/jobs", &user);
    let check = |gates: &str, objects: Objects, pods: &Value, now: i32| {
        let plugin = JobValidation::new(&Gates::parse(gates).unwrap());
        let (new, old) = (job(now, pods), job(1, pods));
        let outcome = case.run(plugin, objects, (Some(&new), Some(&old)));
        outcome.map(|_| ()).map_err(|err| err.message().to_owned())
    };
    let on = "GenericWorkload=true";
    let plain = json!({"containers": []});
    let named = json!({"containers": [], "schedulingGroup": {"podGroupName": "g"}});
    let refused = "jobs.batch \"web\" is forbidden: cannot change parallelism for a Job referencing gang-scheduled PodGroup \"g\"";
    assert_eq!(check(on, group("gang", "u"), &plain, 2).unwrap_err(), refused);
    assert_eq!(check(on, group("gang", "other"), &named, 2).unwrap_err(), refused);
    assert!(check(on, group("gang", "u"), &plain, 1).is_ok());
    assert!(check(on, group("gang", "other"), &plain, 2).is_ok());
    assert!(check(on, group("basic", "u"), &plain, 2).is_ok());
    assert!(check("", group("gang", "u"), &plain, 2).is_ok());
}
