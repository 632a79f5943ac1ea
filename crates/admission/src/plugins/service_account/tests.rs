//! Pod spec in, pod spec or refusal out.

use std::sync::Arc;

use serde_json::{Value, json};
use stdx::Random;

use super::ServiceAccounts;
use crate::plugins::fixture::{Objects, create_pod};

fn create(account: &Value, spec: &Value) -> Result<Value, String> {
    let objects = Objects::default().with("serviceaccounts", account);
    let plugin = ServiceAccounts::new(Arc::new(objects), Random::from_seed(1));
    create_pod(&plugin, spec).map_err(|err| err.message().to_owned())
}

fn default_account() -> Value {
    json!({"metadata": {"name": "default", "namespace": "ns"}, "imagePullSecrets": [{"name": "pull"}]})
}

#[test]
fn a_pod_gets_the_default_account_its_token_and_its_pull_secrets() {
    let spec = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
    let spec = create(&default_account(), &spec).unwrap();
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    let name = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
    let projected = json!({
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ],
    });
    assert_eq!(spec["volumes"][0]["projected"], projected);
    let mount = json!([{
        "name": name,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "readOnly": true,
    }]);
    assert_eq!(spec["containers"][0]["volumeMounts"], mount);
    assert_eq!(spec["initContainers"][0]["volumeMounts"], mount);
}

#[test]
fn nothing_is_mounted_where_it_is_not_wanted_or_already_there() {
    let off = json!({"containers": [{"name": "a"}], "automountServiceAccountToken": false});
    assert_eq!(create(&default_account(), &off).unwrap().get("volumes"), None);
    let mut account = default_account();
    account["automountServiceAccountToken"] = json!(false);
    let plain = json!({"containers": [{"name": "a"}]});
    assert_eq!(create(&account, &plain).unwrap().get("volumes"), None);
    let mounted = json!({"containers": [{"name": "a", "volumeMounts": [
        {"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}]});
    assert_eq!(create(&default_account(), &mounted).unwrap().get("volumes"), None);
}

#[test]
fn an_account_that_does_not_exist_is_refused() {
    let spec = json!({"containers": [{"name": "a"}], "serviceAccountName": "robot"});
    let expected = "pods \"web\" is forbidden: error looking up service account ns/robot: \
                    serviceaccount \"robot\" not found";
    assert_eq!(create(&default_account(), &spec), Err(expected.to_owned()));
}
