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
//! ```
//!
//! Objects without a namespace are in the case's own; those whose name begins with `cluster:` are
//! in none, and are named for the case.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::kept::kept;
use crate::normal;
use crate::server::Server;

/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(100);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long nothing may change before it counts as settled under a manager that has just come.
const QUIET: Duration = Duration::from_secs(8);
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

    fn namespace(&self) -> String {
        format!("case-{}", self.name)
    }

    /// What there is when all steps were taken, in a form that another run can have, too.
    pub(crate) async fn play(&self, server: &mut Server) -> Result<Value> {
        let (seen, namespace) = (self.reach(server).await?, self.namespace());
        delete_namespace(server, &namespace).await;
        Ok(normal::form(&seen, &namespace))
    }

    /// What there is when all steps were taken, as it must stay whoever follows. The namespace
    /// stays, too.
    pub(crate) async fn hold(&self, server: &mut Server) -> Result<Value> {
        Ok(kept(&self.reach(server).await?))
    }

    /// What there is now in the namespace that [`Case::hold`] left.
    pub(crate) async fn look_again(&self, server: &mut Server) -> Result<Value> {
        let (namespace, looked_at) = (self.namespace(), self.looked_at());
        rest(server, &namespace, &looked_at, QUIET).await?;
        let seen = look(server, &namespace, &looked_at).await?;
        delete_namespace(server, &namespace).await;
        Ok(kept(&seen))
    }

    fn looked_at(&self) -> Vec<String> {
        let named = self.steps.iter().filter_map(|it| it["look at"].as_array()).flatten();
        let named = named.filter_map(Value::as_str);
        ALWAYS.iter().copied().chain(named).map(str::to_owned).collect()
    }

    /// Takes all steps, and tells what there is then.
    async fn reach(&self, server: &mut Server) -> Result<Value> {
        let namespace = self.namespace();
        make_namespace(server, &namespace).await?;
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        until(server, &account, "the account", |it| it.is_some()).await?;
        let looked_at = self.looked_at();
        for (number, step) in self.steps.iter().enumerate() {
            self.take(server, &namespace, step, &looked_at)
                .await
                .map_err(|err| format!("step {number}: {err}"))?;
        }
        look(server, &namespace, &looked_at).await
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
            if place.is_wide {
                // It is in no namespace that takes it along when a run ends.
                let _ = server.write("DELETE", &place.object(), JSON, &json!({})).await;
            }
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
        } else if step.get("look at").is_none() {
            return Err(format!("an unknown step: {step}").into());
        }
        Ok(())
    }
}

/// Whoever manages what there is has made a Deployment's pod run. What was there before it came it
/// has heard of then.
pub(crate) async fn await_manager(server: &mut Server) -> Result<()> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "newcomer" },
        "spec": { "selector": { "matchLabels": { "app": "newcomer" } }, "template": {
            "metadata": { "labels": { "app": "newcomer" } },
            "spec": { "containers": [{ "name": "c", "image": "one" }] },
        } },
    });
    let (namespace, uri) = ("case-newcomer", "/apis/apps/v1/namespaces/case-newcomer/deployments");
    make_namespace(server, namespace).await?;
    server.write("POST", uri, JSON, &deployment).await?;
    let runs = |it: Option<&Value>| it.is_some_and(|it| it["status"]["readyReplicas"] == 1);
    until(server, &format!("{uri}/newcomer"), "a pod that runs", runs).await?;
    delete_namespace(server, namespace).await;
    Ok(())
}

/// When one from a run before is gone.
async fn make_namespace(server: &mut Server, name: &str) -> Result<()> {
    let uri = format!("/api/v1/namespaces/{name}");
    until(server, &uri, "the end of its namespace", |it| it.is_none()).await?;
    let namespace = json!({ "metadata": { "name": name } });
    server.write("POST", "/api/v1/namespaces", JSON, &namespace).await.map(drop)
}

/// Whether it is there is seen when the next one is made.
async fn delete_namespace(server: &mut Server, name: &str) {
    let _ = server.write("DELETE", &format!("/api/v1/namespaces/{name}"), JSON, &json!({})).await;
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Where an object is.
struct Place {
    collection: String,
    name: String,
    /// In no namespace.
    is_wide: bool,
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
        let collection = format!("{root}/{version}{within}/{plural}");
        Ok((Self { collection, name, is_wide: within.is_empty() }, object))
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
