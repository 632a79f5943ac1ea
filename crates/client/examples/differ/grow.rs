//! Values made from schemas: what a field could hold, by its type and by what it is called. Most
//! are well formed; whether they are valid together is for a server to say. Pure.

use serde_json::{Map, Value, json};
use stdx::Random;

use crate::place::{self, Change, Step};
use crate::schema::Schemas;

/// Objects within objects that are made at once.
const DEPTH_MAX: usize = 5;

pub(crate) struct Garden<'a> {
    pub(crate) schemas: &'a Schemas,
    pub(crate) random: &'a Random,
}

impl Garden<'_> {
    /// A field that the object could have and does not, somewhere below `root`, with a value.
    pub(crate) fn addition(&self, object: &Value, schema: &Value, root: &[Step]) -> Option<Change> {
        let mut parents: Vec<_> =
            place::all(object).into_iter().filter(|it| it.starts_with(root)).collect();
        parents.push(root.to_vec());
        for _ in 0..20 {
            let at = pick(self.random, &parents);
            let (Some(value), Some(schema)) = (place::get(object, at), self.schemas.at(schema, at))
            else {
                continue;
            };
            let step = match value {
                Value::Object(fields) => self.absent(fields, self.schemas.resolve(schema)),
                Value::Array(items) if items.len() < 4 => Some(Step::Item(items.len())),
                _ => None,
            };
            let Some(step) = step else { continue };
            let Some(schema) = self.schemas.below(schema, &step) else { continue };
            let name = name_of(at, &step);
            let place = at.iter().cloned().chain([step]).collect();
            return Some(Change { place, value: Some(self.value(schema, &name, 0)) });
        }
        None
    }

    fn absent(&self, fields: &Map<String, Value>, schema: &Value) -> Option<Step> {
        if let Some(known) = schema["properties"].as_object() {
            let absent: Vec<_> = known.keys().filter(|it| !fields.contains_key(*it)).collect();
            let written = |it: &&&String| !SERVERS.contains(&it.as_str());
            let absent: Vec<_> = absent.iter().filter(written).collect();
            return (!absent.is_empty())
                .then(|| Step::Field((**pick(self.random, &absent)).clone()));
        }
        let values = schema.get("additionalProperties")?;
        Some(Step::Field(self.key(values, "")))
    }

    /// Something of that type. `name` is what the field is called.
    pub(crate) fn value(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let resolved = self.schemas.resolve(schema);
        let words = [schema, resolved].into_iter().find_map(|it| it["enum"].as_array());
        if let Some(words) = words.filter(|it| !it.is_empty()) {
            return pick(self.random, words).clone();
        }
        if resolved.get("oneOf").is_some() {
            let choices =
                if resolved["format"] == "int-or-string" { PORTS_AND_PARTS } else { QUANTITIES };
            let text = *pick(self.random, choices);
            return text.parse::<u16>().map_or_else(|_| json!(text), |number| json!(number));
        }
        match resolved["type"].as_str() {
            Some("boolean") => json!(self.random.below(2) == 0),
            Some("integer") => json!(pick(self.random, integers(name))),
            Some("number") => json!(*pick(self.random, &[0.5, 1.0, 2.0])),
            Some("string") => {
                json!(self.text(resolved["format"].as_str().unwrap_or_default(), name))
            }
            Some("array") => {
                let n = 1 + self.random.below(2);
                (0..n).map(|_| self.value(&resolved["items"], name, depth + 1)).collect()
            }
            Some("object") => self.object(resolved, name, depth),
            _ => pick(self.random, &[json!({"a": "b"}), json!("x"), json!(1), json!(true)]).clone(),
        }
    }

    fn object(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let mut fields = Map::new();
        if let Some(values) = schema.get("additionalProperties") {
            for _ in 0..=self.random.below(2) {
                fields.insert(self.key(values, name), self.value(values, name, depth + 1));
            }
        }
        let required = |it: &str| {
            let all = schema["required"].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).any(|one| one == it)
        };
        // Few of many fields: of objects that may have one of their fields alone most would be
        // refused otherwise.
        let known = schema["properties"].as_object();
        let chance = 60 / known.map_or(1, Map::len).max(1) as u64 + 10;
        for (name, field) in known.into_iter().flatten() {
            let is_chosen = depth < DEPTH_MAX && self.random.below(100) < chance;
            if required(name) || (is_chosen && !SERVERS.contains(&name.as_str())) {
                fields.insert(name.clone(), self.value(field, name, depth + 1));
            }
        }
        Value::Object(fields)
    }

    fn key(&self, values: &Value, name: &str) -> String {
        let is_quantity = self.schemas.resolve(values).get("oneOf").is_some();
        let keys = match name {
            _ if is_quantity => RESOURCES,
            "data" | "binaryData" | "stringData" => &["a", "a.txt", "b-1"][..],
            _ => &["app", "example.com/a", "tier", "kubernetes.io/hostname"][..],
        };
        (*pick(self.random, keys)).to_owned()
    }

    fn text(&self, format: &str, name: &str) -> String {
        let choices = match format {
            "date-time" if name.ends_with("MicroTime") => &["2024-01-02T03:04:05.000006Z"][..],
            "date-time" => &["2024-01-02T03:04:05Z", "2025-06-07T08:09:10Z"][..],
            "byte" => &["Y2VydGlmaWNhdGU=", "AQI=", ""][..],
            _ => texts(name),
        };
        (*pick(self.random, choices)).to_owned()
    }
}

/// What servers write themselves: names of fields that are not made up.
const SERVERS: &[&str] = &[
    "apiVersion",
    "kind",
    "managedFields",
    "resourceVersion",
    "uid",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "creationTimestamp",
    "generation",
    "generateName",
];
const RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "storage",
    "ephemeral-storage",
    "hugepages-2Mi",
    "example.com/gpu",
    "pods",
    "requests.cpu",
    "limits.memory",
    "count/jobs.batch",
];
const QUANTITIES: &[&str] = &["1", "100m", "1Gi", "64Mi", "2", "0", "1.5", "1e3", "0.5Gi"];
const PORTS_AND_PARTS: &[&str] = &["1", "80", "25%", "100%", "http", "0", "8080"];

/// The last field on the way.
fn name_of(parent: &[Step], step: &Step) -> String {
    let steps = parent.iter().chain([step]).rev();
    let names = steps.filter_map(|it| match it {
        Step::Field(name) => Some(name.clone()),
        Step::Item(_) => None,
    });
    names.into_iter().next().unwrap_or_default()
}

pub(crate) fn integers(name: &str) -> &'static [i64] {
    let name = name.to_ascii_lowercase();
    if name.contains("port") {
        &[80, 443, 8080, 30080, 0, 65535]
    } else if name.contains("seconds") || name.contains("percent") {
        &[1, 5, 10, 30, 60, 100, 600, 3600, 0]
    } else {
        &[0, 1, 2, 3, 5, 10, 100, 1000, 65534, 420]
    }
}

/// What a field of that name usually holds.
pub(crate) fn texts(name: &str) -> &'static [&'static str] {
    match name {
        "namespace" => &["default", "team-a"],
        "apiVersion" => &["v1", "apps/v1", "batch/v1"],
        "kind" => &["Pod", "Deployment", "ServiceAccount", "User", "Group", "Secret"],
        "apiGroup" | "group" | "apiGroups" => {
            &["", "apps", "rbac.authorization.k8s.io", "example.com"]
        }
        "apiVersions" | "version" => &["v1", "v1beta1", "*"],
        "operations" => &["CREATE", "UPDATE", "*", "CONNECT"],
        "verbs" => &["get", "list", "*", "create"],
        "resources" | "resource" => &["pods", "pods/log", "limits.cpu", "requests.memory", "*"],
        "operator" => &["In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt", "Lt"],
        "effect" => &["NoSchedule", "PreferNoSchedule", "NoExecute"],
        "protocol" => &["TCP", "UDP", "SCTP"],
        "scheme" => &["HTTP", "HTTPS"],
        "key" | "topologyKey" | "labelKey" | "matchLabelKeys" | "mismatchLabelKeys" => {
            &["app", "example.com/zone", "kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        }
        "values" | "value" => &["a", "web", "1", "0.5", "x y"],
        "host" | "hostname" | "hosts" | "hostnames" => {
            &["web.example.org", "*.example.org", "a", "10.0.0.1"]
        }
        "image" => &["nginx:1.29", "web", "registry.example.com/a/b@sha256:00"],
        "type" => &[
            "RollingUpdate",
            "OnDelete",
            "Recreate",
            "Utilization",
            "Value",
            "AverageValue",
            "ClusterIP",
            "NodePort",
            "Opaque",
            "Ready",
            "Resource",
            "Pods",
            "Localhost",
            "RuntimeDefault",
            "Unconfined",
            "Container",
            "Directory",
            "Hostname",
            "InternalIP",
        ],
        "status" => &["True", "False", "Unknown"],
        "reason" => &["Because", "Invalid", "Forbidden"],
        "phase" => &["Pending", "Running", "Bound", "Active", "Failed"],
        "expression" | "valueExpression" | "messageExpression" => &["true", "'a'", "1 + 1 == 2"],
        "fieldPath" => {
            &["metadata.name", "spec.nodeName", "status.podIP", "metadata.labels['app']"]
        }
        "accessModes" => &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
        "finalizers" => &["example.com/wait", "foregroundDeletion", "orphan"],
        "schedule" => &["0 * * * *", "@daily", "*/5 1-3 * * mon"],
        "add" | "drop" => &["NET_ADMIN", "ALL", "SYS_TIME"],
        "uid" => &["11111111-2222-3333-4444-555555555555"],
        "cidr" | "podCIDR" | "podCIDRs" | "cidrs" | "except" | "loadBalancerSourceRanges" => {
            &["10.0.0.0/8", "10.1.0.0/16", "fd00::/64", "192.168.0.0/24"]
        }
        _ => texts_by_ending(&name.to_ascii_lowercase()),
    }
}

fn texts_by_ending(name: &str) -> &'static [&'static str] {
    let ends = |endings: &[&str]| endings.iter().any(|it| name.ends_with(it));
    if ends(&["ip", "ips", "address", "addresses"]) {
        &["10.0.0.1", "10.96.3.4", "fd00::1", "None"]
    } else if ends(&["path"]) {
        &["/data", "/var/run/x", "data/x", "x"]
    } else if ends(&["name", "names"]) {
        &["web", "data", "a-1", "web.example.com", "http", "c"]
    } else if ends(&["policy", "mode", "strategy", "action"]) {
        &[
            "Always",
            "Never",
            "IfNotPresent",
            "Retain",
            "Delete",
            "Fail",
            "Ignore",
            "None",
            "Cluster",
            "Local",
        ]
    } else {
        &["a", "web", "x-1", "example.com/a", "a.example.com", "10", "Some words."]
    }
}

pub(crate) fn pick<'a, T>(random: &Random, all: &'a [T]) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}
