//! The questions to the server.

use std::sync::Arc;

use admission::observer::Report;
use anyhow::{Context as _, Result, bail};
use api::Dynamic;
use apimachinery::{ApiError, GroupVersionResource, Scope};
use client::https::Config;
use client::{
    DeleteOptions, Discovered, ListOptions, PatchKind, Payload, Reply, Request, Transport, Verb,
    WriteOptions,
};
use lifecycle::Tasks;
use serde::Serialize;
use serde_json::Value;

use super::super::access::connect;
use super::super::manifest::Document;
use super::{Operation, Outcome};

const HEADER: (&str, &str) = ("Xebec-Explain", "admission");
const MANAGER: &str = "xebec-admit";

/// An object of the file, as the cluster knows its kind.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(skip)]
    pub(super) resource: GroupVersionResource,
}

/// A server that explains dry runs.
pub(super) struct Explaining {
    plain: Arc<dyn Transport>,
    explaining: Arc<dyn Transport>,
    kinds: Vec<Discovered>,
    server: String,
    version: String,
}

impl Explaining {
    pub(super) async fn connect(config: &Config, tasks: &Tasks) -> Result<Self> {
        let plain = connect(config, tasks)?;
        let version = plain.get_path("/version".to_owned()).await;
        let version = version.with_context(|| format!("asking {}", config.server))?;
        let version: Value = serde_json::from_slice(&version).context("reading its version")?;
        let version = version["gitVersion"].as_str().unwrap_or("nothing").to_owned();
        if !version.contains("xebec") {
            return Err(not_xebec(&config.server, &version));
        }
        let mut asking = config.clone();
        asking.headers.push((HEADER.0.to_owned(), HEADER.1.to_owned()));
        let explaining = connect(&asking, tasks)?;
        let kinds = plain.discover().await.context("asking which kinds are served")?;
        Ok(Self { plain, explaining, kinds, server: config.server.clone(), version })
    }

    pub(super) fn target(
        &self,
        document: &Document,
        (default, asked): (&str, &Option<String>),
    ) -> Result<Target> {
        let (api_version, kind) = (document.text("apiVersion"), document.text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let same = self.kinds.iter().filter(|it| it.resource.group == group && it.kind == kind);
        let Some(found) = same.clone().next() else {
            bail!("line {}: the server has no kind {kind} in {api_version}", document.line);
        };
        let name = match document.metadata("name") {
            "" => document.metadata("generateName"),
            name => name,
        };
        let namespace = match (found.scope, document.metadata("namespace"), asked) {
            (Scope::Cluster, _, _) => "",
            (Scope::Namespaced, "", _) => default,
            (Scope::Namespaced, own, Some(asked)) if own != asked => bail!(
                "line {}: metadata.namespace is {own:?}, and -n says {asked:?}",
                document.line
            ),
            (Scope::Namespaced, own, _) => own,
        };
        Ok(Target {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            resource: GroupVersionResource::new(group, version, &found.resource.resource),
        })
    }

    pub(super) async fn ask(
        &self,
        target: Target,
        document: &Document,
        operation: Option<Operation>,
    ) -> Result<Outcome> {
        let operation = match operation {
            Some(operation) => operation,
            None => self.operation(&target, document).await?,
        };
        let request = request(&target, document, operation)?;
        let (report, error) = match self.explaining.call(request).await {
            Ok(Reply::Object(answer)) => (Some(self.read(&answer.bytes)?), None),
            Ok(_) => return Err(not_xebec(&self.server, &self.version)),
            Err(err) if is_about_request(&err) => (None, Some(err.message().to_owned())),
            Err(err) => return Err(err).context("asking the API server"),
        };
        Ok(Outcome { object: target, report, error })
    }

    /// By what is there. Whoever may not look is taken to create.
    async fn operation(&self, target: &Target, document: &Document) -> Result<Operation> {
        if document.metadata("name").is_empty() {
            return Ok(Operation::Create);
        }
        let mut request = empty(target, Verb::Get);
        request.name = Some(target.name.clone());
        match self.plain.call(request).await {
            Ok(_) => Ok(Operation::Update),
            Err(err) if err.is_not_found() || err.code() == 403 => Ok(Operation::Create),
            Err(err) => Err(err).context("asking whether the object is there"),
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Report> {
        let report: Value = serde_json::from_slice(bytes).context("reading the answer")?;
        if report["kind"] != Report::KIND || report["apiVersion"] != Report::API_VERSION {
            return Err(not_xebec(&self.server, &self.version));
        }
        serde_json::from_value(report).context("reading the report")
    }
}

fn not_xebec(server: &str, version: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{server} does not explain admission: it is no Xebec, or an older one (it says {version}), or another \
         server answers for this kind. `kubectl apply --dry-run=server` tells the outcome there"
    )
}

/// Whether the object or the caller is what is wrong.
fn is_about_request(err: &ApiError) -> bool {
    (400..500).contains(&err.code()) && err.code() != 401 && err.code() != 429
}

fn empty(target: &Target, verb: Verb) -> Request {
    Request {
        verb,
        resource: target.resource.clone(),
        namespace: Some(target.namespace.clone()).filter(|it| !it.is_empty()),
        name: None,
        subresource: None,
        write: WriteOptions::default(),
        list: ListOptions::default(),
        payload: Payload::Empty,
    }
}

fn request(target: &Target, document: &Document, operation: Operation) -> Result<Request> {
    let mut object = document.object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // What a server wrote into a file that was taken from it.
        metadata.remove("managedFields");
        if !target.namespace.is_empty() {
            metadata.insert("namespace".to_owned(), target.namespace.clone().into());
        }
    }
    let write = WriteOptions {
        dry_run: true,
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some("Strict".to_owned()),
        force: operation == Operation::Update,
    };
    let name = Some(target.name.clone());
    let line = document.line;
    Ok(match operation {
        Operation::Create => {
            let object = Dynamic::from_value(object);
            let object = object.with_context(|| format!("line {line}: this is no object"))?;
            Request {
                write,
                payload: Payload::Object(Box::new(object)),
                ..empty(target, Verb::Create)
            }
        }
        Operation::Update => {
            let body = object.to_string().into_bytes().into();
            let payload = Payload::Patch(PatchKind::Apply, body);
            Request { name, write, payload, ..empty(target, Verb::Patch) }
        }
        Operation::Delete => {
            let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
            Request { name, payload: Payload::Delete(options), ..empty(target, Verb::Delete) }
        }
    })
}
