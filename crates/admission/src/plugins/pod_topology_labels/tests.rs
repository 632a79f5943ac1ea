//! Pods and bindings in, labels out.

use api::ApiObject;
use api::core::{Binding, Pod};
use apimachinery::User;
use serde_json::{Value, json};

use super::PodTopologyLabels;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn labels(resource: &str, object: &dyn ApiObject) -> Value {
    let labels = json!({
        "topology.kubernetes.io/zone": "a",
        "topology.kubernetes.io/region": "north",
        "kubernetes.io/hostname": "n",
    });
    let node = json!({"metadata": {"name": "n", "labels": labels}});
    let objects = Objects::default().with("nodes", &node);
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, resource, &user);
    case.run(PodTopologyLabels, objects, (Some(object), None)).unwrap()["metadata"]["labels"]
        .clone()
}

#[test]
fn a_pod_gets_the_place_of_its_node() {
    let place = json!({
        "topology.kubernetes.io/zone": "a",
        "topology.kubernetes.io/region": "north",
    });
    let binding = |kind: &str, node: &str| -> Binding {
        decode(&json!({"metadata": {"name": "web"}, "target": {"kind": kind, "name": node}}))
    };
    assert_eq!(labels("/pods/binding", &binding("Node", "n")), place);
    assert_eq!(labels("/pods/binding", &binding("Node", "other")), Value::Null);
    assert_eq!(labels("/pods/binding", &binding("Machine", "n")), Value::Null);
    let pod = |fields: Value| -> Pod {
        let metadata =
            json!({"name": "web", "labels": {"topology.kubernetes.io/zone": "b", "app": "web"}});
        decode(&json!({"metadata": metadata, "spec": fields}))
    };
    // The node knows better.
    let mut merged = place;
    merged["app"] = json!("web");
    assert_eq!(labels("/pods", &pod(json!({"containers": [], "nodeName": "n"}))), merged);
    let own = json!({"topology.kubernetes.io/zone": "b", "app": "web"});
    assert_eq!(labels("/pods", &pod(json!({"containers": []}))), own);
}
