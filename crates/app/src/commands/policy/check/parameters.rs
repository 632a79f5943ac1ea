//! Parameters of policies: those of the file, else those of the cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use admission::policy::{Found, Parameters};
use apimachinery::Scope;
use apimachinery::selector::Labels;
use client::{Client, Discovered, ListOptions};
use futures_util::future::BoxFuture;
use serde_json::Value;

type Answer = Result<Vec<Arc<Value>>, String>;

/// More are not looked at.
const LIST_MAX: u64 = 1_000;

pub(super) struct Known {
    pub(super) client: Client,
    pub(super) kinds: Vec<Discovered>,
    pub(super) given: Vec<Value>,
    asked: Mutex<BTreeMap<String, Answer>>,
}

impl Known {
    pub(super) fn new(client: Client, kinds: Vec<Discovered>, given: Vec<Value>) -> Self {
        Self { client, kinds, given, asked: Mutex::default() }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Option<&Discovered> {
        let group = api_version.split_once('/').map_or("", |it| it.0);
        self.kinds.iter().find(|it| it.resource.group == group && it.kind == kind)
    }

    fn of_file(&self, wanted: Found<'_>) -> Vec<Arc<Value>> {
        let is_it = |it: &&Value| {
            let meta = &it["metadata"];
            let namespace = meta["namespace"].as_str();
            it["apiVersion"] == wanted.api_version
                && it["kind"] == wanted.kind
                && (namespace.is_none()
                    || wanted.namespace.is_none()
                    || namespace == wanted.namespace)
                && match wanted.name {
                    Some(name) => meta["name"] == name,
                    None => matches(wanted.selector, meta),
                }
        };
        self.given.iter().filter(is_it).cloned().map(Arc::new).collect()
    }

    async fn of_cluster(&self, wanted: Found<'_>) -> Answer {
        let found = self.kind(wanted.api_version, wanted.kind);
        let found = found.ok_or_else(|| format!("no kind {} is served", wanted.kind))?;
        let (mut resource, namespace) =
            (found.resource.clone(), wanted.namespace.unwrap_or_default());
        let version = wanted.api_version.rsplit('/').next().unwrap_or_default();
        version.clone_into(&mut resource.version);
        let api = self.client.dynamic(resource);
        let read = |bytes: &[u8]| serde_json::from_slice(bytes).map(Arc::new);
        let unreadable = |err: serde_json::Error| err.to_string();
        if let Some(name) = wanted.name {
            return match api.get(namespace, name).await {
                Ok(object) => Ok(vec![read(&object.bytes).map_err(unreadable)?]),
                Err(err) if err.is_not_found() => Ok(Vec::new()),
                Err(err) => Err(err.message().to_owned()),
            };
        }
        let options = ListOptions { limit: Some(LIST_MAX), ..ListOptions::default() };
        let list = api.list(namespace, options).await.map_err(|it| it.message().to_owned())?;
        let all: Result<Vec<Arc<Value>>, _> = list.items.iter().map(|it| read(&it.bytes)).collect();
        let mut all = all.map_err(unreadable)?;
        all.retain(|it| matches(wanted.selector, &it["metadata"]));
        Ok(all)
    }
}

fn matches(selector: &Labels, metadata: &Value) -> bool {
    let labels: BTreeMap<String, String> =
        serde_json::from_value(metadata["labels"].clone()).unwrap_or_default();
    selector.matches(&labels)
}

impl Parameters for Known {
    fn scope(&self, api_version: &str, kind: &str) -> Option<Scope> {
        self.kind(api_version, kind).map(|it| it.scope)
    }

    fn find<'a>(&'a self, wanted: Found<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let given = self.of_file(wanted);
            if !given.is_empty() {
                return Ok(given);
            }
            let Found { api_version, kind, namespace, name, selector } = wanted;
            let key = format!("{api_version} {kind} {namespace:?} {name:?} {selector:?}");
            let known =
                self.asked.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
            if let Some(known) = known {
                return known;
            }
            let answer = self.of_cluster(wanted).await;
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.insert(key, answer.clone());
            answer
        })
    }
}
