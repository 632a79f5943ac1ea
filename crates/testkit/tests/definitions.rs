//! A CustomResourceDefinition comes and goes, as those see it who follow every resource: garbage
//! collector, namespaces and quotas.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::Dynamic;
use apimachinery::{GroupResource, GroupVersionResource};
use client::{Client, DeleteOptions};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use testkit::{Cluster, Options};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const MINUTE: Duration = Duration::from_secs(60);
const NAME: &str = "fruits.example.com";

/// Every warning that was logged in this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "fruits", "kind": "Fruit"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }))
    .unwrap()
}

async fn plant(admin: &Client, namespace: &str, name: &str, owner: Value) {
    let fruits = admin.dynamic(GroupVersionResource::new("example.com", "v1", "fruits"));
    let metadata = json!({"name": name, "namespace": namespace, "ownerReferences": owner});
    let fruit = json!({"apiVersion": "example.com/v1", "kind": "Fruit", "metadata": metadata});
    fruits.create(Dynamic::from_value(fruit).unwrap()).await.unwrap();
}

/// How many fruits the quota counts.
async fn used(admin: &Client) -> String {
    let quota = admin.api::<ResourceQuota>().get("default", "fruits").await.unwrap();
    let used = quota.status.clone().unwrap_or_default().used.unwrap_or_default();
    used.get("count/fruits.example.com").map(|it| it.0.clone()).unwrap_or_default()
}

async fn prepare(cluster: &Cluster) {
    let admin = &cluster.admin;
    admin.api().create(definition()).await.unwrap();
    tokio::time::sleep(MINUTE).await;
    let quota = json!({
        "metadata": {"name": "fruits", "namespace": "default"},
        "spec": {"hard": {"count/fruits.example.com": "9"}},
    });
    admin.api::<ResourceQuota>().create(serde_json::from_value(quota).unwrap()).await.unwrap();
    let orchard = json!({"metadata": {"name": "orchard"}});
    admin.api::<Namespace>().create(serde_json::from_value(orchard).unwrap()).await.unwrap();
    plant(admin, "orchard", "pear", json!([])).await;
    plant(admin, "default", "apple", json!([])).await;
    // Its owner was never there: whoever follows the resource takes it away.
    let owner = json!([{
        "apiVersion": "example.com/v1", "kind": "Fruit", "name": "none", "uid": "none",
    }]);
    plant(admin, "default", "orphan", owner).await;
    assert!(cluster.until(MINUTE, async |admin| used(admin).await == "1").await);
}

#[test]
fn nobody_asks_for_a_resource_whose_definition_is_gone() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    runtime.block_on(async {
        let cluster = Cluster::start(Options { seed: 11, nodes: 0 }).await.unwrap();
        let fruits = GroupResource::new("example.com", "fruits");
        prepare(&cluster).await;
        assert!(cluster.faults.n_asked(&fruits) > 0, "nobody follows the resource");

        warnings.0.lock().unwrap().clear();
        let definitions = cluster.admin.api::<CustomResourceDefinition>();
        definitions.delete("", NAME, DeleteOptions::default()).await.unwrap();
        let is_gone = async |admin: &Client| {
            admin.api::<CustomResourceDefinition>().get("", NAME).await.is_err()
        };
        assert!(cluster.until(MINUTE, is_gone).await);
        tokio::time::sleep(MINUTE).await;
        let asked = cluster.faults.n_asked(&fruits);

        // Those who followed it have other things to do.
        let namespaces = cluster.admin.api::<Namespace>();
        namespaces.delete("", "orchard", DeleteOptions::default()).await.unwrap();
        let is_gone =
            async |admin: &Client| admin.api::<Namespace>().get("", "orchard").await.is_err();
        assert!(cluster.until(MINUTE, is_gone).await);
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!(cluster.faults.n_asked(&fruits), asked, "somebody still asks for it");
        assert_eq!(*warnings.0.lock().unwrap(), Vec::<String>::new());

        // It may come back.
        cluster.admin.api().create(definition()).await.unwrap();
        tokio::time::sleep(MINUTE).await;
        plant(&cluster.admin, "default", "plum", json!([])).await;
        assert!(cluster.until(MINUTE, async |admin| used(admin).await == "1").await);
        assert!(cluster.faults.n_asked(&fruits) > asked);
        cluster.stop().await.unwrap();
    });
}
