//! An operator of kopf, Python's framework for them: a process that is known by what it does.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::cluster::Cluster;
use crate::python;

const OPERATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/boats.py");
const HARBOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/harbor.py");

/// Ends with the test.
pub(crate) struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `kopf run` with these arguments.
pub(crate) fn start(
    cluster: &Cluster,
    python: std::ffi::OsString,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Operator {
    let log = File::create(cluster.path("kopf.log")).unwrap();
    let command = Command::new(python)
        .args(["-m", "kopf", "run", "--standalone"])
        .args(arguments)
        .envs(variables.iter().copied())
        .env("KUBECONFIG", cluster.path("data/kubeconfig"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn();
    Operator(command.unwrap())
}

fn definition() -> String {
    let text = json!({ "type": "string" });
    let spec = json!({ "type": "object", "properties": { "name": text, "color": text } });
    let status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": status } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "boats.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "boats", "singular": "boat", "kind": "Boat" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    definition.to_string()
}

fn define(cluster: &Cluster) {
    let definition = cluster.file("boats.json", &definition());
    cluster.ok(&["apply", "-f", &definition]);
    cluster.until_established("boats.example.com");
}

/// The file of a boat.
fn boat(cluster: &Cluster, object: &str, name: &str) -> String {
    let boat = json!({
        "apiVersion": "example.com/v1", "kind": "Boat", "metadata": { "name": object },
        "spec": { "name": name },
    });
    cluster.file("boat.json", &boat.to_string())
}

#[test]
fn an_operator_of_kopf_creates_updates_counts_and_finalizes() {
    let Some(python) = python::with("kopf") else { return };
    let Some(cluster) = Cluster::start(0) else { return };
    define(&cluster);
    let _operator = start(&cluster, python, &["--namespace", "default", OPERATOR], &[]);
    cluster.ok(&["apply", "-f", &boat(&cluster, "one", "Albatross")]);

    let field = |path: &str| -> [String; 5] {
        ["get", "boat", "one", "-o", &format!("jsonpath={{{path}}}")].map(str::to_owned)
    };
    let until = |path: &str, is_right: &dyn Fn(&str) -> bool| {
        let words = field(path);
        cluster.until(&words.each_ref().map(String::as_str), is_right);
    };
    until(".status.launched.name", &|it| it == "Albatross");
    until(".metadata.finalizers", &|it| it.contains("kopf.zalando.org/KopfFinalizerMarker"));
    let events = [
        "get",
        "events",
        "--field-selector",
        "reason=Launched",
        "-o",
        "jsonpath={.items[*].message}",
    ];
    cluster.until(&events, |it| it == "Albatross is afloat");
    until(".status.ticks", &|it| it.parse::<u32>().is_ok_and(|it| it >= 3));

    cluster.ok(&["patch", "boat", "one", "--type=merge", "-p", r#"{"spec":{"name":"Petrel"}}"#]);
    until(".status", &|it| it.contains(r#"{"from":"Albatross","to":"Petrel"}"#));

    // It goes when the operator has said farewell, and not before.
    cluster.ok(&["delete", "boat", "one"]);
    let farewell = cluster.ok(&["get", "configmap", "farewell-one", "-o", "jsonpath={.data.name}"]);
    assert_eq!(farewell, "Petrel");
}

/// Kopf serves webhooks itself, and writes the configurations that name them.
#[test]
fn an_operator_of_kopf_is_asked_about_what_is_written() {
    let Some(python) = python::with("kopf") else { return };
    let Some(cluster) = Cluster::start(0) else { return };
    define(&cluster);
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = cluster.file("harbor.crt", &certified.cert.pem());
    let key = cluster.file("harbor.key", &certified.signing_key.serialize_pem());
    let variables = [("HARBOR_CERTIFICATE", &*certificate), ("HARBOR_KEY", &*key)];
    let _operator = start(&cluster, python, &["--all-namespaces", HARBOR], &variables);
    let configured = |kind: &str| {
        let path = "jsonpath={.webhooks[*].clientConfig.url}";
        let words = ["get", kind, "harbor.example.com", "-o", path];
        cluster.until(&words, |it| it.contains("https://localhost:"));
    };
    configured("mutatingwebhookconfiguration");
    configured("validatingwebhookconfiguration");

    let made = cluster.run(&["create", "-f", &boat(&cluster, "one", "Albatross")]);
    assert!(made.is_ok, "{}", made.stderr);
    let warning = "Warning: a boat without a color is painted white";
    assert!(made.stderr.contains(warning), "{}", made.stderr);
    let color = ["get", "boat", "one", "-o", "jsonpath={.spec.color}"];
    assert_eq!(cluster.ok(&color), "white");
    let refused = cluster.refused(&["create", "-f", &boat(&cluster, "two", "Titanic")]);
    assert!(refused.contains("denied the request: xebec-admin may not tempt fate"), "{refused}");
    let renamed = r#"{"spec":{"name":"Titanic"}}"#;
    let refused = cluster.refused(&["patch", "boat", "one", "--type=merge", "-p", renamed]);
    assert!(refused.contains("may not tempt fate"), "{refused}");
    let renamed = r#"{"spec":{"name":"Petrel","color":"red"}}"#;
    cluster.ok(&["patch", "boat", "one", "--type=merge", "-p", renamed]);
    assert_eq!(cluster.ok(&color), "red");
}
