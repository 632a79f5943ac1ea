//! metrics.k8s.io/v1beta1: what nodes and pods use now. Not stored, and read only: the server asks
//! the nodes when it is asked. The group is none of Kubernetes' own; elsewhere metrics-server adds
//! it, so its kinds are described as custom ones are.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::quantity::{Amount, Family};
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Map, Value, json};

use crate::apiextensions::custom_resource::{CustomKind, Table};
use crate::apiextensions::custom_resource_definition::CustomResourceDefinition;
use crate::codec;
use crate::kind::Kind;
use crate::object::{Stored, meta_of};

pub const GROUP: &str = "metrics.k8s.io";
pub const VERSION: &str = "v1beta1";

/// The annotation that says what a pod on a simulated node uses: words such as `cpu=250m` and
/// `memory=64Mi`, of each of its containers.
pub const SIMULATED_USAGE: &str = "simulator.xebec.local/usage";

const DEFINITIONS: &str = include_str!("definitions.json");

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("cpu", "string"),
    Column::new("memory", "string"),
    Column::new("Window", "string"),
];

pub fn kinds() -> Vec<Arc<dyn Kind>> {
    let definitions: Vec<CustomResourceDefinition> =
        serde_json::from_str(DEFINITIONS).expect("a test reads them");
    let kind = |it: &CustomResourceDefinition| {
        let row = if it.spec.scope == "Cluster" { row_of_node } else { row_of_pod };
        let table = Table { columns: COLUMNS, row };
        Arc::new(CustomKind::unstored(it, table)) as Arc<dyn Kind>
    };
    definitions.iter().map(kind).collect()
}

/// What something uses, over how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Amount,
    pub memory: Amount,
}

impl Usage {
    fn tree(self) -> Value {
        json!({
            "cpu": self.cpu.render(Family::Decimal),
            "memory": self.memory.render(Family::Binary),
        })
    }

    /// `cpu=250m memory=64Mi`; what is not said is nothing.
    pub fn parse(text: &str) -> Self {
        let words: BTreeMap<&str, &str> =
            text.split_ascii_whitespace().filter_map(|it| it.split_once('=')).collect();
        let amount = |name: &str| {
            let text = words.get(name).copied().unwrap_or_default();
            Amount::parse(text).ok().filter(|it| !it.is_negative()).unwrap_or_default()
        };
        Self { cpu: amount("cpu"), memory: amount("memory") }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }
}

/// When it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub end: Timestamp,
    pub seconds: f64,
}

impl Interval {
    /// As Go prints a duration of whole milliseconds.
    fn window(&self) -> String {
        let millis = (self.seconds * 1000.0).round().max(0.0);
        format!("{}s", millis / 1000.0)
    }
}

pub fn node_metrics(of: &ObjectMeta, interval: Interval, usage: Usage) -> Stored {
    let rest = json!({"usage": usage.tree()});
    stored("NodeMetrics", of, interval, rest)
}

/// `containers` by name.
pub fn pod_metrics(of: &ObjectMeta, interval: Interval, containers: &[(String, Usage)]) -> Stored {
    let containers: Vec<Value> =
        containers.iter().map(|(name, it)| json!({"name": name, "usage": it.tree()})).collect();
    stored("PodMetrics", of, interval, json!({"containers": containers}))
}

/// With name, namespace and labels of what was measured.
fn stored(kind: &str, of: &ObjectMeta, interval: Interval, rest: Value) -> Stored {
    let meta = ObjectMeta {
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        labels: of.labels.clone(),
        creation_timestamp: Some(Time(whole(interval.end))),
        ..ObjectMeta::default()
    };
    let mut object = Map::new();
    object.insert("kind".to_owned(), json!(kind));
    object.insert("apiVersion".to_owned(), json!(format!("{GROUP}/{VERSION}")));
    object.insert("metadata".to_owned(), codec::tree(&meta));
    object.insert("timestamp".to_owned(), json!(whole(interval.end).to_string()));
    object.insert("window".to_owned(), json!(interval.window()));
    if let Value::Object(rest) = rest {
        object.extend(rest);
    }
    Stored::new(meta_of(&meta, Vec::new()), Value::Object(object).to_string().into())
}

fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn row_of_node(tree: &Value) -> Vec<Value> {
    row(tree, &[&tree["usage"]])
}

fn row_of_pod(tree: &Value) -> Vec<Value> {
    let containers = tree["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let usages: Vec<&Value> = containers.iter().map(|it| &it["usage"]).collect();
    row(tree, &usages)
}

fn row(tree: &Value, usages: &[&Value]) -> Vec<Value> {
    let sum = |resource: &str, family: Family| {
        let amounts = usages.iter().filter_map(|it| Amount::parse(it[resource].as_str()?).ok());
        amounts.fold(Amount::ZERO, Amount::saturating_add).render(family)
    };
    vec![
        tree["metadata"]["name"].clone(),
        json!(sum("cpu", Family::Decimal)),
        json!(sum("memory", Family::Binary)),
        tree["window"].clone(),
    ]
}
