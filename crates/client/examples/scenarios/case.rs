//! One scenario: a file of steps, one JSON object each.
//!
//! ```text
//! {"create": OBJECT}
//! {"merge": OBJECT}                      a merge patch of the object that has this name
//! {"merge status": OBJECT}               of its status
//! {"delete": OBJECT, "options": {...}}
//! {"until": OBJECT}                      the object shows all that this says
//! {"gone": OBJECT}
//! {"rest": 2}                            nothing changes for so many seconds
//! {"look at": ["apps/v1 replicasets", ...]}   beside what every case looks at
//! {"show hashes": true}                  of revisions: both sides are to store the same bytes
//! ```
//!
//! Objects without a namespace are in the case's own; those whose name begins with `cluster:` are
//! in none, and are named for the case.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::normal::{self, Hashes};
use crate::server::Server;

/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(100);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What every case looks at.
const ALWAYS: &[&str] = &["v1 pods", "v1 events"];

pub(crate) struct Case {
    pub(crate) name: String,
    steps: Vec<Value>,
}

impl Case {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.file_stem().and_then(|it| it.to_str()).ok_or("a case without a name")?;
        let text = std::fs::read_to_string(path)?;
        let steps: std::result::Result<_, _> =
            serde_json::Deserializer::from_str(&text).into_iter().collect();
        let steps = steps.map_err(|err| format!("{}: {err}", path.display()))?;
        Ok(Self { name: name.to_owned(), steps })
    }

    /// What there is when all steps were taken.
    pub(crate) async fn play(&self, server: &mut Server) -> Result<Value> {
        let namespace = format!("case-{}", self.name);
        let own = json!({ "metadata": { "name": namespace } });
        server.write("POST", "/api/v1/namespaces", JSON, &own).await?;
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        until(server, &account, "the account", |it| it.is_some()).await?;
        let mut looked_at: Vec<String> = ALWAYS.iter().map(|it| (*it).to_owned()).collect();
        for (number, step) in self.steps.iter().enumerate() {
            for name in step["look at"].as_array().into_iter().flatten() {
                looked_at.extend(name.as_str().map(str::to_owned));
            }
            self.take(server, &namespace, step, &looked_at)
                .await
                .map_err(|err| format!("step {number}: {err}"))?;
        }
        let seen = look(server, &namespace, &looked_at).await?;
        let _ = server
            .write("DELETE", &format!("/api/v1/namespaces/{namespace}"), JSON, &json!({}))
            .await;
        let shows_hashes = self.steps.iter().any(|it| it["show hashes"] == true);
        let hashes = if shows_hashes { Hashes::Shown } else { Hashes::Hidden };
        Ok(normal::form(&seen, &namespace, hashes))
    }

    async fn take(
        &self,
        server: &mut Server,
        namespace: &str,
        step: &Value,
        looked_at: &[String],
    ) -> Result<()> {
        let place = |object: &Value| Place::of(object, namespace);
        if let Some(object) = step.get("create") {
            let (place, object) = place(object)?;
            server.write("POST", &place.collection, JSON, &object).await?;
        } else if let Some(object) = step.get("merge") {
            let (place, object) = place(object)?;
            server.write("PATCH", &place.object(), MERGE, &object).await?;
        } else if let Some(object) = step.get("merge status") {
            let (place, object) = place(object)?;
            server.write("PATCH", &format!("{}/status", place.object()), MERGE, &object).await?;
        } else if let Some(object) = step.get("delete") {
            let options = step.get("options").cloned().unwrap_or_else(|| json!({}));
            server.write("DELETE", &place(object)?.0.object(), JSON, &options).await?;
        } else if let Some(object) = step.get("until") {
            let (place, wanted) = place(object)?;
            let what = wanted.to_string();
            let is_there = |it: Option<&Value>| it.is_some_and(|it| shows(it, &wanted));
            until(server, &place.object(), &what, is_there).await?;
        } else if let Some(object) = step.get("gone") {
            let (place, wanted) = place(object)?;
            let what = format!("no {wanted}");
            until(server, &place.object(), &what, |it: Option<&Value>| it.is_none()).await?;
        } else if let Some(seconds) = step.get("rest").and_then(Value::as_u64) {
            rest(server, namespace, looked_at, Duration::from_secs(seconds)).await?;
        } else if step.get("look at").or_else(|| step.get("show hashes")).is_none() {
            return Err(format!("an unknown step: {step}").into());
        }
        Ok(())
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Where an object is.
struct Place {
    collection: String,
    name: String,
}

impl Place {
    /// And the object as it is sent.
    fn of(object: &Value, namespace: &str) -> Result<(Self, Value)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut object = object.clone();
        let name = text(&object["metadata"]["name"]);
        let mut within = format!("/namespaces/{namespace}");
        let name = match name.strip_prefix("cluster:") {
            Some(name) => {
                within.clear();
                format!("{namespace}-{name}")
            }
            None => name,
        };
        object["metadata"]["name"] = json!(name);
        let version = text(&object["apiVersion"]);
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let plural = plural(&text(&object["kind"]));
        let object = substitute(object, namespace);
        Ok((Self { collection: format!("{root}/{version}{within}/{plural}"), name }, object))
    }

    fn object(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }
}

/// `NAMESPACE` in any text is the case's own.
fn substitute(value: Value, namespace: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("NAMESPACE", namespace)),
        Value::Array(items) => items.into_iter().map(|it| substitute(it, namespace)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, it)| (key, substitute(it, namespace)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.as_str() {
        "endpoints" => kind,
        "networkpolicy" => "networkpolicies".to_owned(),
        "ingress" => "ingresses".to_owned(),
        // What is said of a pod, under its own name.
        "podmetrics" => "pods".to_owned(),
        _ => format!("{kind}s"),
    }
}

/// All that is expected is there.
fn shows(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| shows(seen.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(seen), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| seen.iter().any(|it| shows(it, wanted)))
        }
        _ => seen == wanted,
    }
}

async fn until(
    server: &mut Server,
    path: &str,
    what: &str,
    is_right: impl Fn(Option<&Value>) -> bool,
) -> Result<()> {
    let start = Instant::now();
    loop {
        let seen = server.get(path).await?;
        if is_right(seen.as_ref()) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            let seen = seen.unwrap_or_default();
            return Err(format!("waited in vain for {what}; there is {}", seen["status"]).into());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn rest(
    server: &mut Server,
    namespace: &str,
    looked_at: &[String],
    quiet: Duration,
) -> Result<()> {
    let start = Instant::now();
    let mut last = (look(server, namespace, looked_at).await?, start);
    while last.1.elapsed() < quiet {
        if start.elapsed() > PATIENCE {
            return Err("it does not come to rest".into());
        }
        tokio::time::sleep(LOOK_EVERY).await;
        let seen = look(server, namespace, looked_at).await?;
        if seen != last.0 {
            last = (seen, Instant::now());
        }
    }
    Ok(())
}

/// Lists by what they are of; `cluster v1 nodes` is not of the namespace, and only what is named
/// for the case counts.
async fn look(server: &mut Server, namespace: &str, looked_at: &[String]) -> Result<Value> {
    let mut seen = serde_json::Map::new();
    for what in looked_at {
        let (is_wide, of) = match what.strip_prefix("cluster ") {
            Some(of) => (true, of),
            None => (false, what.as_str()),
        };
        let (version, plural) = of.split_once(' ').ok_or("look at: a version and a resource")?;
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let within = if is_wide { String::new() } else { format!("/namespaces/{namespace}") };
        let list = server.get(&format!("{root}/{version}{within}/{plural}")).await?;
        let items = list.as_ref().and_then(|it| it["items"].as_array()).into_iter().flatten();
        let is_ours = |it: &&Value| {
            let name = it["metadata"]["name"].as_str().unwrap_or_default();
            !is_wide || name.starts_with(namespace)
        };
        seen.insert(what.clone(), items.filter(is_ours).cloned().collect());
    }
    Ok(Value::Object(seen))
}
