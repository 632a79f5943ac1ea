//! The operator of `examples/operators/websites`, from outside and with no more rights than it needs.

use std::time::Duration;

use client::kubeconfig::{Credential, Entry, merge};
use lifecycle::Tasks;
use operator_connection::{Place, connect};
use serde_json::json;
use stdx::World;

use crate::cluster::Cluster;

const DEFINITION: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/operators/websites/website.yaml");
const PAGES: &[&str] =
    &["get", "configmap", "home-pages", "--ignore-not-found", "-o", "jsonpath={.data}"];
const REPORTED: &[&str] = &["get", "website", "home", "-o", "jsonpath={.status.pages}"];

/// A kubeconfig of a service account that may follow and write what the operator follows and
/// writes.
fn kubeconfig(cluster: &Cluster) -> String {
    cluster.ok(&["create", "serviceaccount", "operator"]);
    let role = |name: &str, verbs: &str, resources: &str| {
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        cluster.ok(&["create", "clusterrole", name, &verbs, &resources]);
        let (bound, account) =
            (format!("--clusterrole={name}"), "--serviceaccount=default:operator");
        cluster.ok(&["create", "clusterrolebinding", name, &bound, account]);
    };
    role("sites", "list,watch", "websites.example.com");
    role("site-status", "patch", "websites.example.com/status");
    role("pages", "list,watch,create,patch", "configmaps");
    let token = cluster.ok(&["create", "token", "operator"]);
    let entry = Entry {
        name: "operator".to_owned(),
        server: cluster.server(),
        ca_pem: std::fs::read(cluster.path("data/pki/ca.crt")).unwrap(),
        credential: Credential::Token(token.trim().to_owned()),
    };
    cluster.file("operator.kubeconfig", &merge("", &entry).unwrap())
}

fn website(pages: serde_json::Value) -> String {
    let site = json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": { "name": "home" }, "spec": { "pages": pages },
    });
    site.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_keeps_what_its_resources_ask_for() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["apply", "-f", DEFINITION]);
    cluster.until_established("websites.example.com");
    let (tasks, world) = (Tasks::new(), World::system());
    let path = kubeconfig(&cluster);
    let place = Place::Kubeconfig(path.as_ref(), None);
    let client = connect(place, operator::NAME, &world, &tasks).unwrap();
    operator::start(&client, world, &tasks);

    let apply = |pages| {
        let file = cluster.file("website.json", &website(pages));
        cluster.ok(&["apply", "-f", &file]);
    };
    apply(json!({ "index.html": "hello" }));
    cluster.until(PAGES, |it| it == r#"{"index.html":"hello"}"#);
    cluster.until(REPORTED, |it| it == "1");

    apply(json!({ "index.html": "hello", "about.html": "us" }));
    cluster.until(PAGES, |it| it == r#"{"about.html":"us","index.html":"hello"}"#);
    cluster.until(REPORTED, |it| it == "2");

    // What somebody else did to the pages is undone.
    let spoiled = r#"{"data":{"index.html":"spoiled"}}"#;
    cluster.ok(&["patch", "configmap", "home-pages", "--type=merge", "-p", spoiled]);
    cluster.until(PAGES, |it| it == r#"{"about.html":"us","index.html":"hello"}"#);

    // With their website they go.
    cluster.ok(&["delete", "website", "home"]);
    cluster.until(PAGES, str::is_empty);
    tasks.shutdown(Duration::from_secs(10)).await.unwrap();
}
