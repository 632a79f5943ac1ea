//! Loads of what extends the API: definitions, and custom resources with rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::calls::{drive, expect, milliseconds, prefix};
use crate::connect::{Connection, Target};
use crate::{NAMESPACE, Result};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Definitions in each group.
const PER_GROUP: usize = 10;
/// Fields of each schema: about 66 bytes each.
const FIELDS: usize = 450;
/// How long to wait for the server to show what it was given.
const SHOWN_AFTER_MAX: Duration = Duration::from_secs(120);

/// So many definitions of 30 KB one after the other, until discovery shows all of them.
pub(crate) async fn definitions(target: &Target, count: usize) -> Result<Value> {
    let mut connection = Connection::open(target).await?;
    let started = Instant::now();
    let mut bytes = 0;
    for index in 0..count {
        let body = definition(index).to_string();
        bytes = body.len();
        let request = target.request("POST", DEFINITIONS, body.as_bytes());
        expect(connection.call(&request).await?.0, 201)?;
    }
    let created = started.elapsed();
    // The last one is served only when it is established; groups are shown in order of creation.
    let last = count.saturating_sub(1);
    let path = format!("/apis/g{}.example.com/v1/r{last}s", last / PER_GROUP);
    let request = target.request("GET", &path, b"");
    loop {
        if connection.call(&request).await?.0 == 200 && shown(target).await? >= count {
            break;
        }
        if started.elapsed() > created + SHOWN_AFTER_MAX {
            return Err(format!("{} of {count} are shown", shown(target).await?).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    let created = created.as_secs_f64();
    Ok(json!({"operations": count, "bytes": bytes, "created_s": created, "shown_s": seconds}))
}

/// How many of them discovery shows, by groups and what is in each.
async fn shown(target: &Target) -> Result<usize> {
    let mut connection = Connection::open(target).await?;
    let mut n = 0;
    for group in 0.. {
        let request = target.request("GET", &format!("/apis/g{group}.example.com/v1"), b"");
        let (code, length) = connection.call(&request).await?;
        if code != 200 {
            break;
        }
        let list: Value = serde_json::from_slice(connection.body(length))?;
        n += list["resources"].as_array().map_or(0, Vec::len);
    }
    Ok(n)
}

fn definition(index: usize) -> Value {
    let (group, plural) = (format!("g{}.example.com", index / PER_GROUP), format!("r{index}s"));
    let field = json!({"type": "string", "description": "it says something"});
    let fields: Map<String, Value> =
        (0..FIELDS).map(|it| (format!("field{it}"), field.clone())).collect();
    let spec = json!({"type": "object", "properties": fields});
    whole(&group, &plural, &format!("R{index}"), &spec)
}

fn whole(group: &str, plural: &str, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// Custom resources with ten rules, of the size of the ConfigMaps of `create`.
pub(crate) async fn create_custom(target: Arc<Target>, n: usize, seconds: usize) -> Result<Value> {
    const GROUP: &str = "load.example.com";
    let rules = [
        "self.min <= self.max",
        "self.min >= 0",
        "self.name != ''",
        "self.name.startsWith('c')",
        "self.text.size() <= 2000",
        "self.tags.all(it, it.size() > 0)",
        "!('none' in self.tags)",
        "has(self.name) && self.name.matches('^[a-z0-9-]+$')",
        "self.max < 100 || self.min > 10",
        "size(self.tags) <= 10",
    ];
    let text = |n: u32| json!({"type": "string", "maxLength": n});
    let spec = json!({
        "type": "object",
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "name": text(63), "text": text(4096),
            "tags": {"type": "array", "maxItems": 10, "items": text(32)},
        },
        "x-kubernetes-validations": rules.map(|it| json!({"rule": it})),
    });
    let body = whole(GROUP, "ruled", "Ruled", &spec).to_string();
    let mut connection = Connection::open(&target).await?;
    let code = connection.call(&target.request("POST", DEFINITIONS, body.as_bytes())).await?.0;
    if code != 409 {
        expect(code, 201)?;
    }
    let path = format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/ruled");
    wait_until_served(&target, &path).await?;
    let prefix = prefix();
    drive(target, n, seconds, 201, move |target, connection, number| {
        let name = format!("{prefix}-{connection}-{number}");
        let body = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Ruled",
            "metadata": {"name": name, "labels": {"app": "load", "part": name}},
            "spec": {"min": 1, "max": 3, "name": name, "text": "x".repeat(850), "tags": ["a", "b"]},
        });
        target.request("POST", &path, body.to_string().as_bytes())
    })
    .await
}

async fn wait_until_served(target: &Target, path: &str) -> Result<()> {
    let mut connection = Connection::open(target).await?;
    let started = Instant::now();
    while connection.call(&target.request("GET", path, b"")).await?.0 != 200 {
        if started.elapsed() > SHOWN_AFTER_MAX {
            return Err(format!("{path} is not served").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// One ConfigMap after the other, and how long one takes: what asks others about it shows.
pub(crate) async fn one_by_one(target: &Target, count: usize) -> Result<Value> {
    let mut connection = Connection::open(target).await?;
    let prefix = prefix();
    let mut took = Vec::new();
    for number in 0..count {
        let body = crate::calls::config_map(&format!("{prefix}-{number}"), 900);
        let request = target.request("POST", &crate::calls::path(), &body);
        let sent = Instant::now();
        expect(connection.call(&request).await?.0, 201)?;
        took.push(sent.elapsed());
    }
    took.sort_unstable();
    Ok(json!({"operations": count, "p50_ms": milliseconds(&took, 50)}))
}
