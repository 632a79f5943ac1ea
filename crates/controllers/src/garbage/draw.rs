//! Bytes as choices: objects of any kind, by its schema. Nothing has validated them, and most of
//! what they say hardly fits together, but names, labels, states and times do now and then.

use std::sync::{Arc, OnceLock};

use api::Resource;
use apimachinery::schema::{Schema, SchemaRef, Type};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// Fields are left out below this.
const DEPTH_MAX: usize = 9;
const NAMES: &[&str] = &["a", "a-0", "a-1", "a-7", "b", ""];
const PHASES: &[&str] = &["Running", "Pending", "Succeeded", "Failed", "Active", ""];
const TYPES: &[&str] = &[
    "Ready",
    "Complete",
    "Failed",
    "Progressing",
    "Resource",
    "Pods",
    "Object",
    "External",
    "Utilization",
    "AverageValue",
    "Value",
    "RollingUpdate",
    "OnDelete",
    "Recreate",
    "LoadBalancer",
    "ClusterIP",
    "DisruptionTarget",
    "Percent",
    "",
];
const POLICIES: &[&str] = &[
    "Parallel",
    "OrderedReady",
    "Retain",
    "Delete",
    "Never",
    "Always",
    "OnFailure",
    "Forbid",
    "Replace",
    "Allow",
    "AlwaysAllow",
    "IfHealthyBudget",
    "Max",
    "Min",
    "Disabled",
    "TerminatingOrFailed",
    "FailJob",
    "FailIndex",
    "Count",
    "Ignore",
    "",
];
const OPERATORS: &[&str] =
    &["In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt", "Lt", "Exact", ""];
const TEXTS: &[&str] = &[
    "a",
    "b",
    "",
    "0",
    "1",
    "7",
    "-1",
    "2147483647",
    "9223372036854775807",
    "True",
    "False",
    "Unknown",
    "NoExecute",
    "NoSchedule",
    "Indexed",
    "NonIndexed",
    "0-3",
    "0-2147483647",
    "5,2-1",
    "* * * * *",
    "*/7 2-3 * FEB MON#1",
    "@every 1s",
    "Europe/Berlin",
    "TCP",
    "IPv4",
    "IPv6",
    "10.0.0.1",
    "fd00::1",
    "10.0.0.0/24",
    "2026-01-02T03:04:05Z",
    "2026-01-01",
    "100%",
    "kubernetes",
    "apps/v1",
    "batch/v1",
    "v1",
    "Job",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "Pod",
    "Node",
    "foregroundDeletion",
    "orphan",
    "node.kubernetes.io/out-of-service",
    "cpu",
    "memory",
    "pods",
    "PreferClose",
    "ä\u{0}",
    "system:bootstrap:abcdef",
    "driver.example.com",
];
const KEYS: &[&str] = &[
    "a",
    "app",
    "cpu",
    "memory",
    "pods",
    "ca.crt",
    "kubeconfig",
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "pod-template-hash",
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-index-failure-count",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    "controller.kubernetes.io/pod-deletion-cost",
    "topology.kubernetes.io/zone",
    "kubernetes.io/service-account.name",
    "kubernetes.io/legacy-token-last-used",
    "endpoints.kubernetes.io/over-capacity",
    "xebec.local/load-balancer-ips",
];
const QUANTITIES: &[&str] =
    &["1", "0", "-1", "100m", "1Gi", "9223372036854775807", "1e30", "-1e30", "1n"];
const SHARES: &[&str] = &["25%", "0%", "100%", "2147483647%", "-5%", "x"];

pub(crate) struct Draw<'a> {
    bytes: &'a [u8],
}

impl<'a> Draw<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// When they are used up all is 0.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    pub(crate) fn of(&mut self, words: &'static [&'static str]) -> &'static str {
        words[self.below(words.len())]
    }

    pub(crate) fn name(&mut self) -> &'static str {
        self.of(NAMES)
    }

    /// Any number, and often one at an end of its range.
    pub(crate) fn number(&mut self) -> i32 {
        match self.below(8) {
            0 => i32::MAX,
            1 => i32::MIN,
            2 => -1,
            3 => 1_000_000_000,
            _ => i32::from(self.byte()) % 12,
        }
    }

    /// Near the present of all plans, or at an end of time.
    pub(crate) fn time(&mut self) -> Timestamp {
        match self.below(6) {
            0 => "0001-01-01T00:00:00Z".parse().expect("a time"),
            1 => "9999-12-30T22:00:00Z".parse().expect("a time"),
            _ => {
                let (far, near) = (i64::from(self.byte()) - 128, i64::from(self.byte()) - 128);
                now() + SignedDuration::from_secs(far * 60 + near)
            }
        }
    }

    /// What decodes; nobody has validated it. Defaults are set now and then.
    pub(crate) fn object<T: Resource>(&mut self) -> Arc<T> {
        let is_defaulted = self.flag();
        let tree = self.value("", &api::schema(T::FACTS.definition), 0);
        let mut object = T::decode(tree.to_string().as_bytes())
            .unwrap_or_else(|err| panic!("{} {err}: {tree}", T::FACTS.kind));
        if is_defaulted {
            object.apply_defaults();
        }
        Arc::new(object)
    }

    /// A few of them.
    pub(crate) fn objects<T: Resource>(&mut self) -> Vec<Arc<T>> {
        (0..self.below(5)).map(|_| self.object()).collect()
    }

    /// As somebody sees it.
    pub(crate) fn view<T: Resource, V: for<'b> From<&'b T>>(&mut self) -> Arc<V> {
        Arc::new(V::from(&self.object::<T>()))
    }

    pub(crate) fn views<T: Resource, V: for<'b> From<&'b T>>(&mut self) -> Vec<Arc<V>> {
        (0..self.below(5)).map(|_| self.view::<T, V>()).collect()
    }

    fn value(&mut self, field: &str, schema: &SchemaRef, depth: usize) -> Value {
        let schema = schema.resolve();
        match schema.kind {
            Type::Object if !schema.properties.is_empty() => self.fields(&schema, depth),
            Type::Object => {
                let Some(value) = schema.additional.clone() else { return json!({}) };
                let count = self.below(4);
                (0..count)
                    .map(|_| (self.of(KEYS).to_owned(), self.value(field, &value, depth + 1)))
                    .collect()
            }
            Type::Array => {
                let item = schema.items.clone().unwrap_or_default();
                let count = if depth > DEPTH_MAX { 0 } else { self.below(4) };
                (0..count).map(|_| self.value(field, &item, depth + 1)).collect()
            }
            Type::Any => json!({ "a": [1, null] }),
            _ => self.leaf(field, &schema),
        }
    }

    fn leaf(&mut self, field: &str, schema: &Schema) -> Value {
        match schema.kind {
            Type::String => match schema.format.as_str() {
                "date-time" => json!(self.time().to_string()),
                "byte" => json!(["", "YQ==", "/w=="][self.below(3)]),
                _ => json!(self.text(field)),
            },
            Type::IntOrString if schema.format == "quantity" => json!(self.of(QUANTITIES)),
            Type::IntOrString if self.flag() => json!(self.of(SHARES)),
            Type::Integer if schema.format == "int64" && self.byte() < 32 => {
                json!([i64::MAX, i64::MIN][self.below(2)])
            }
            Type::Number => json!(f64::from(self.number())),
            Type::Boolean => json!(self.flag()),
            _ => json!(self.number()),
        }
    }

    fn text(&mut self, field: &str) -> &'static str {
        match field {
            "phase" => self.of(PHASES),
            "type" if self.byte() < 250 => self.of(TYPES),
            "operator" => self.of(OPERATORS),
            _ if field.ends_with("olicy") && self.byte() < 250 => self.of(POLICIES),
            "name" | "namespace" | "uid" | "nodeName" => self.name(),
            "resourceVersion" => ["1", "7", "x"][self.below(3)],
            _ if self.flag() => self.name(),
            _ => self.of(TEXTS),
        }
    }

    /// What decides is near the root: the deeper a field, the more often it is left out.
    fn fields(&mut self, schema: &Schema, depth: usize) -> Value {
        let mut fields = Map::new();
        if depth > DEPTH_MAX {
            return Value::Object(fields);
        }
        for (name, field) in &schema.properties {
            let share = match depth {
                0 => 250,
                1 | 2 => 128,
                3 | 4 => 70,
                _ => 30,
            };
            let is_type = matches!(name.as_str(), "apiVersion" | "kind") && depth == 0;
            // Nobody decides by them, and there are many.
            let is_dull = matches!(name.as_str(), "managedFields" | "lifecycle" | "affinity")
                || name.ends_with("Probe");
            if is_type || is_dull || self.byte() >= share {
                continue;
            }
            let value = self.value(name, field, depth + 1);
            fields.insert(name.clone(), value);
        }
        Value::Object(fields)
    }
}

/// The present of all plans.
pub(crate) fn now() -> Timestamp {
    static NOW: OnceLock<Timestamp> = OnceLock::new();
    *NOW.get_or_init(|| "2026-01-02T03:04:05Z".parse().expect("a time"))
}
