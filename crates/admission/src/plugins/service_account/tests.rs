//! Pod spec in, pod spec or refusal out.

use apimachinery::User;
use apimachinery::schema::Type;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};
use stdx::Random;

use super::{ServiceAccounts, mountable};
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, create_pod, decode, pod};
use crate::plugins::pod_fields;

fn create(account: &Value, spec: &Value) -> Result<Value, String> {
    let objects = Objects::default().with("serviceaccounts", account);
    create_pod(plugin(), objects, spec).map_err(|err| err.message().to_owned())
}

fn plugin() -> ServiceAccounts {
    ServiceAccounts::new(Random::from_seed(1))
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

/// The default account with one Secret and one pull secret, and its word that there are no others.
fn strict_account(annotation: &str) -> Value {
    json!({
        "metadata": {"name": "default", "namespace": "ns",
            "annotations": {"kubernetes.io/enforce-mountable-secrets": annotation}},
        "secrets": [{"name": "own"}],
        "imagePullSecrets": [{"name": "pull"}],
    })
}

#[test]
fn an_account_that_enforces_its_secrets_lends_no_others() {
    let spec = |field: &str, value: &Value| {
        let mut spec =
            json!({"containers": [{"name": "a"}], "automountServiceAccountToken": false});
        spec[field] = value.clone();
        spec
    };
    let check = |field: &str, value: fn(&str) -> Value, what: &str| {
        let account = strict_account("true");
        assert!(create(&account, &spec(field, &value("own"))).is_ok(), "{field}");
        let expected = format!(
            "pods \"web\" is forbidden: {what} is not allowed because service account default does not \
             reference that secret"
        );
        assert_eq!(create(&account, &spec(field, &value("else"))), Err(expected));
        let lenient = strict_account("false");
        assert!(create(&lenient, &spec(field, &value("else"))).is_ok(), "{field}");
    };
    check(
        "volumes",
        |name| json!([{"name": "v", "secret": {"secretName": name}}]),
        "volume with secret.secretName=\"else\"",
    );
    check(
        "volumes",
        |name| json!([{"name": "v", "projected": {"sources": [{"secret": {"name": name}}]}}]),
        "volume with secret.secretName=\"else\"",
    );
    check(
        "containers",
        |name| json!([{"name": "a", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]}]),
        "container a with envVar E referencing secret.secretName=\"else\"",
    );
    check(
        "containers",
        |name| json!([{"name": "a", "envFrom": [{"secretRef": {"name": name}}]}]),
        "container a with envFrom referencing secret.secretName=\"else\"",
    );
    check(
        "initContainers",
        |name| json!([{"name": "i", "envFrom": [{"secretRef": {"name": name}}]}]),
        "init container i with envFrom referencing secret.secretName=\"else\"",
    );
    let pulls = |name: &str| spec("imagePullSecrets", &json!([{"name": name}]));
    assert!(create(&strict_account("1"), &pulls("pull")).is_ok());
    let refusal = create(&strict_account("1"), &pulls("else")).unwrap_err();
    assert!(refusal.contains("imagePullSecrets[0].name=\"else\" is not allowed"), "{refusal}");
}

#[test]
fn ephemeral_containers_borrow_no_secrets_either() {
    let check = |name: &str, expected: &str| {
        let objects = Objects::default().with("serviceaccounts", &strict_account("true"));
        let spec = json!({"serviceAccountName": "default", "containers": [],
            "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": name}}]}]});
        let object: api::core::Pod = decode(&pod(&spec));
        let user = User::new("alice", &[]);
        let case = Case::of(Operation::Update, "/pods/ephemeralcontainers", &user);
        let outcome = case.validate(&plugin(), objects, &object);
        let said = outcome.map_or_else(|err| err.message().to_owned(), |()| "ok".to_owned());
        assert!(said.contains(expected), "{said}");
    };
    check("own", "ok");
    check("else", "ephemeral container e with envFrom referencing secret.secretName=\"else\"");
}

#[test]
fn a_mirror_pod_asks_nothing_of_the_api() {
    let check = |spec: &Value, expected: &str| {
        let objects = Objects::default();
        let mut value = pod(spec);
        value["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        let object: api::core::Pod = decode(&value);
        let user = User::new("alice", &[]);
        let case = Case::of(Operation::Create, "/pods", &user);
        let outcome = case.validate(&plugin(), objects, &object);
        let said = outcome.map_or_else(|err| err.message().to_owned(), |()| "ok".to_owned());
        assert!(said.contains(expected), "{said}");
    };
    check(&json!({"containers": []}), "ok");
    check(
        &json!({"containers": [], "serviceAccountName": "a"}),
        "may not reference service accounts",
    );
    check(
        &json!({"containers": [], "imagePullSecrets": [{"name": "x"}]}),
        "may not reference secrets",
    );
    let token = json!({"sources": [{"serviceAccountToken": {"path": "p"}}]});
    let volumes = json!([{"name": "v", "projected": token}]);
    check(
        &json!({"containers": [], "volumes": volumes}),
        "may not use ServiceAccountToken volume projections",
    );
}

#[test]
fn no_field_that_names_a_secret_is_mountable_unlisted() {
    let fields = pod_fields::all(|path, schema| {
        let is_name = [".name", ".secretName"].iter().any(|it| path.ends_with(it));
        schema.kind == Type::String && is_name && path.to_lowercase().contains("secret")
    });
    assert!(fields.len() >= 17, "{fields:?}");
    let account = decode(&json!({"metadata": {"name": "strict"}}));
    for field in &fields {
        let value = pod_fields::with(field, json!("treasure"));
        let spec: PodSpec = serde_json::from_value(value).unwrap();
        let refused = mountable::validate(&account, &spec)
            .and_then(|()| mountable::validate_ephemeral(&account, &spec));
        let refused = refused.expect_err(field);
        assert!(refused.contains("service account strict does not reference that"), "{refused}");
    }
}
