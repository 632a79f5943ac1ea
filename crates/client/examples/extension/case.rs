//! One case: a file with a list of steps, and the requests that they come to. Pure; whoever plays it
//! sends them.
//!
//! ```text
//! create: OBJECT
//! replace: OBJECT                 with the resourceVersion that is there, unless it names one
//! merge: OBJECT                   a merge patch of the object that has this name
//! patch: [OPERATION, ...], to: OBJECT
//! apply: OBJECT                   server-side, by the manager `case`
//! delete: OBJECT
//! get: OBJECT
//! list: {apiVersion, kind, metadata: {namespace}}
//! tries: OBJECT, with: [CHANGE, ...]      created in dry run, once for each change of it
//! updates: OBJECT, with: [CHANGE, ...]    merge patches in dry run of what is there
//! until: OBJECT                   the object shows all that this says
//! refused: OBJECT                 until it is refused, or accepted, in dry run
//! accepted: OBJECT
//! openapi: GROUP/VERSION          what is published of it, when the definition was published
//! ```
//!
//! Every step may have `query: TEXT`, `part: status`, `table: true`. Objects without a namespace are
//! in `default`, if their kind has namespaces. In changes, `<null>` is a null that is sent.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const NULL: &str = "<null>";

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    /// Who was created, in order: what has to be removed.
    pub(crate) made: Vec<String>,
}

pub(crate) enum Step {
    Ask(Ask),
    /// Until a GET shows all of this.
    Until(String, Value),
    /// Until the request is accepted, or no longer.
    UntilVerdict(Ask, bool),
    OpenApi(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) what: String,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: Value,
    /// It replaces what is there, whatever that is.
    pub(crate) is_blind: bool,
}

impl Case {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.file_stem().and_then(|it| it.to_str()).ok_or("a case without a name")?;
        let text = std::fs::read_to_string(path)?;
        Self::parse(name, &text).map_err(|err| format!("{}: {err}", path.display()).into())
    }

    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let steps: Vec<Value> = serde_saphyr::from_str(text)?;
        let mut kinds = Kinds::new();
        let mut case = Self { name: name.to_owned(), steps: Vec::new(), made: Vec::new() };
        for step in &steps {
            case.add(step, &mut kinds)?;
        }
        Ok(case)
    }

    fn add(&mut self, step: &Value, kinds: &mut Kinds) -> Result<()> {
        const VERBS: [&str; 11] = [
            "accepted", "apply", "create", "delete", "get", "list", "merge", "patch", "refused",
            "replace", "until",
        ];
        let fields = step.as_object().ok_or("a step is a mapping")?;
        let has = |it: &&str| fields.contains_key(*it);
        if let Some(version) = step["openapi"].as_str() {
            self.steps.push(Step::OpenApi(version.to_owned()));
        } else if has(&"tries") || has(&"updates") {
            let verb = if has(&"tries") { "create" } else { "merge" };
            let base = if has(&"tries") { &step["tries"] } else { &step["updates"] };
            for change in step["with"].as_array().ok_or("`with` is a list")? {
                let mut object = if verb == "create" { base.clone() } else { identity(base) };
                merge(&mut object, change);
                // Sent to where the unchanged object would go.
                let ask = kinds.ask(verb, base, step, &format!("with {change}"))?;
                self.steps.push(Step::Ask(ask.with_body(object).in_dry_run()));
            }
        } else {
            let verb = VERBS.into_iter().find(has).ok_or_else(|| format!("no verb: {step}"))?;
            let object = if verb == "patch" { &step["to"] } else { &step[verb] };
            let ask = kinds.ask(verb, object, step, "")?;
            if ask.method == "POST" || verb == "apply" {
                self.made.push(kinds.path(object)?.1);
            }
            self.steps.push(match verb {
                "until" => Step::Until(ask.path, object.clone()),
                "refused" | "accepted" => Step::UntilVerdict(ask.in_dry_run(), verb == "accepted"),
                _ => Step::Ask(ask),
            });
        }
        Ok(())
    }
}

impl Ask {
    fn with_body(self, object: Value) -> Self {
        Self { body: with_nulls(object), ..self }
    }

    fn in_dry_run(mut self) -> Self {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{separator}dryRun=All", self.path);
        self
    }
}

/// Where objects of a kind are: plural, and whether they have namespaces.
struct Kinds(BTreeMap<(String, String), (String, bool)>);

impl Kinds {
    fn new() -> Self {
        let built_in = [
            ("v1", "ConfigMap", "configmaps", true),
            ("v1", "Namespace", "namespaces", false),
            ("v1", "Pod", "pods", true),
            ("apps/v1", "Deployment", "deployments", true),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                false,
            ),
        ];
        let registrations = [
            ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
            ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ];
        let registrations = registrations
            .map(|(kind, plural)| ("admissionregistration.k8s.io/v1", kind, plural, false));
        let all = built_in.into_iter().chain(registrations);
        let entry = |(version, kind, plural, is_namespaced): (&str, &str, &str, bool)| {
            ((version.to_owned(), kind.to_owned()), (plural.to_owned(), is_namespaced))
        };
        Self(all.map(entry).collect())
    }

    /// What a definition brings.
    fn learn(&mut self, definition: &Value) {
        let spec = &definition["spec"];
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        for version in spec["versions"].as_array().into_iter().flatten() {
            let api_version = format!("{}/{}", text(&spec["group"]), text(&version["name"]));
            let plural = text(&spec["names"]["plural"]);
            let entry = (plural, spec["scope"] == "Namespaced");
            self.0.insert((api_version, text(&spec["names"]["kind"])), entry);
        }
    }

    /// Of the collection, and of the object.
    fn path(&self, object: &Value) -> Result<(String, String)> {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let key = (text(&object["apiVersion"]), text(&object["kind"]));
        let (plural, is_namespaced) =
            self.0.get(&key).ok_or_else(|| format!("no definition of {key:?} before"))?;
        let root = if key.0.contains('/') { "/apis/" } else { "/api/" };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let within =
            if *is_namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let collection = format!("{root}{}{within}/{plural}", key.0);
        let path = format!("{collection}/{}", text(&object["metadata"]["name"]));
        Ok((collection, path))
    }

    fn ask(&mut self, verb: &str, object: &Value, step: &Value, detail: &str) -> Result<Ask> {
        if object["kind"] == "CustomResourceDefinition" && verb != "delete" {
            self.learn(object);
        }
        let (collection, path) = self.path(object)?;
        let (method, path, content_type) = match verb {
            "create" | "refused" | "accepted" => ("POST", collection, "application/json"),
            "replace" => ("PUT", path, "application/json"),
            "merge" => ("PATCH", path, "application/merge-patch+json"),
            "patch" => ("PATCH", path, "application/json-patch+json"),
            "apply" => ("PATCH", path, "application/apply-patch+yaml"),
            "delete" => ("DELETE", path, "application/json"),
            "list" => ("GET", collection, "application/json"),
            _ => ("GET", path, "application/json"),
        };
        let part = step["part"].as_str().map(|it| format!("/{it}")).unwrap_or_default();
        let mut query: Vec<&str> = step["query"].as_str().into_iter().collect();
        query.extend((verb == "apply").then_some("fieldManager=case"));
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let body = match verb {
            "patch" => step["patch"].clone(),
            "get" | "list" | "delete" | "until" => Value::Null,
            _ => with_nulls(object.clone()),
        };
        let is_blind = verb == "replace" && object["metadata"]["resourceVersion"].is_null();
        let accept = if step["table"] == true { TABLE } else { "application/json" };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let what = format!("{verb} {kind} {name}{part} {detail}").trim_end().to_owned();
        let path = format!("{path}{part}{query}");
        Ok(Ask { what, method, path, content_type, accept, body, is_blind })
    }
}

/// What says which object it is.
fn identity(object: &Value) -> Value {
    let name = &object["metadata"]["name"];
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": name},
    })
}

/// As a merge patch does it.
fn merge(object: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *object = change.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    for (name, value) in change {
        match value {
            Value::Null => drop(fields.remove(name)),
            _ => merge(fields.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}

fn with_nulls(value: Value) -> Value {
    match value {
        Value::String(text) if text == NULL => Value::Null,
        Value::Array(items) => items.into_iter().map(with_nulls).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, it)| (name, with_nulls(it)));
            fields.collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// Whether `seen` has all that `wanted` says; of a list, each wanted item somewhere.
pub(crate) fn shows(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            wanted.iter().all(|(name, it)| seen.get(name).is_some_and(|seen| shows(seen, it)))
        }
        (Value::Array(seen), Value::Array(wanted)) => {
            wanted.iter().all(|it| seen.iter().any(|seen| shows(seen, it)))
        }
        (seen, wanted) => seen == wanted,
    }
}
