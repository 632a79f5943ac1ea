//! The way in for components of this process: the same pipeline, without sockets and encoding.
//! Watches hand out the cache's own objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Kind, Meta, Stored};
use apimachinery::{ApiError, GroupResource, GroupVersion, Reason, Scope};
use authn::{Component, Credential};
use bytes::Bytes;
use client::https::Rendered;
use client::{
    Discovered, List, PatchKind, Payload, Reply, Request, Transport, Verb, WatchEvent,
    WatchEventKind, WatchStream,
};
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Limited};

use crate::aggregated::Remote;
use crate::faults;
use crate::flow;
use crate::http::elsewhere::Asked;
use crate::http::status::full;
use crate::metrics::{About, Recording};
use crate::pipeline::hooks::{Passing, StreamBody};
use crate::pipeline::{self, Body, Call, Core, Outcome, Unread, WatchItem, Watching};

/// For another server to answer in, and how much it may say.
const ELSEWHERE_MAX: Duration = Duration::from_secs(60);
const ANSWER_MAX: usize = 64 << 20;

pub(crate) struct InProcess {
    core: Arc<Core>,
    identity: Component,
    field_manager: String,
}

impl InProcess {
    pub(crate) fn new(core: Arc<Core>, identity: Component, field_manager: &str) -> Self {
        Self { core, identity, field_manager: field_manager.to_owned() }
    }

    async fn enter(&self, call: Call) -> Result<pipeline::Request, ApiError> {
        pipeline::enter_in_process(&self.core, &self.identity, call).await
    }

    fn record(&self, call: &Call, is_apply: bool) -> Option<Recording> {
        let about = About {
            verb: call.verb,
            resource: &call.resource,
            namespace: call.namespace.as_deref(),
            name: call.name.as_deref(),
            subresource: call.subresource.as_deref(),
            is_dry_run: call.write.dry_run,
            is_apply,
        };
        self.core.metrics.requests.begin(about, &self.core.registry.kinds())
    }

    fn call_of(&self, request: Request) -> (Call, Unread) {
        let body = match request.payload {
            Payload::Empty => Body::Empty,
            Payload::Object(object) => Body::Object(object),
            Payload::Patch(form, bytes) => Body::Patch(form, bytes),
            Payload::Delete(options) => Body::Delete(options),
        };
        let call = Call {
            verb: request.verb,
            resource: request.resource,
            namespace: request.namespace.filter(|it| !it.is_empty()),
            name: request.name.filter(|it| !it.is_empty()),
            subresource: request.subresource.filter(|it| !it.is_empty()),
            write: request.write,
            list: request.list,
            body: Body::Empty,
            user_agent: self.field_manager.clone(),
        };
        (call, Unread::there(body))
    }
}

impl InProcess {
    /// Of a version that another server serves: what comes back for a request, as over HTTP.
    async fn ask(
        &self,
        remote: Arc<Remote>,
        rendered: Rendered,
    ) -> Result<http::Response<StreamBody>, ApiError> {
        let credential = Credential::Component(self.identity.clone());
        let authenticated = pipeline::authenticate(&self.core, &credential, None)?;
        let path = rendered.path.as_str();
        let (bare, query) = path.split_once('?').map_or((path, None), |it| (it.0, Some(it.1)));
        let asked = Asked::of(&rendered.method, bare, query)?;
        let class = asked.class(authenticated.user(), bare);
        let let_in = asked.enter(&self.core, authenticated, class).await?;
        let unsendable = |err: http::Error| ApiError::bad_request(err.to_string());
        let mut request = http::Request::builder()
            .method(rendered.method)
            .uri(rendered.path)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::USER_AGENT, self.field_manager.as_str());
        if let Some(kind) = rendered.content_type {
            request = request.header(http::header::CONTENT_TYPE, kind);
        }
        let (head, ()) = request.body(()).map_err(unsendable)?.into_parts();
        let body = rendered.body;
        let body = (!body.is_empty()).then(|| full(body));
        let passing = Passing { body: Box::new(|| body), ..Passing::new(let_in, head) };
        let passed = self.core.aggregator.pass_on(&self.core, remote, passing);
        let late = |_| ApiError::new(Reason::Timeout, "another server did not answer in time");
        let response = tokio::time::timeout(ELSEWHERE_MAX, passed).await.map_err(late)??;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let body = collect(response).await.unwrap_or_default();
        Err(client::https::error(code, &body, None))
    }

    async fn ask_whole(&self, remote: Arc<Remote>, rendered: Rendered) -> Result<Bytes, ApiError> {
        let response = self.ask(remote, rendered).await?;
        let late = |_| ApiError::new(Reason::Timeout, "another server did not answer in time");
        tokio::time::timeout(ELSEWHERE_MAX, collect(response)).await.map_err(late)?
    }
}

async fn collect(response: http::Response<StreamBody>) -> Result<Bytes, ApiError> {
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    let broken = |err: Box<dyn std::error::Error + Send + Sync>| {
        ApiError::new(Reason::ServiceUnavailable, format!("the answer broke off: {err}"))
    };
    Ok(body.map_err(broken)?.to_bytes())
}

impl Transport for InProcess {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        if let Some(remote) = self.core.aggregated.find(&request.resource.group_version()) {
            let (rendered, is_list) = (Rendered::of(&request), request.verb == Verb::List);
            drop(request);
            return Box::pin(async move {
                client::https::reply(&self.ask_whole(remote, rendered).await?, is_list)
            });
        }
        let is_apply = matches!(request.payload, Payload::Patch(PatchKind::Apply, _));
        let (call, unread) = self.call_of(request);
        Box::pin(async move {
            let recording = self.record(&call, is_apply);
            let answer = match self.enter(call).await {
                Ok(request) => pipeline::call(&self.core, request, unread).await,
                Err(error) => Err(error),
            };
            if let Some(recording) = recording {
                recording.finish(answer.as_ref().map_or_else(ApiError::code, |it| it.code), None);
            }
            let answer = answer.inspect_err(faults::log);
            Ok(match answer?.outcome {
                Outcome::Object(object) => Reply::Object(object),
                Outcome::Done(_) => Reply::Done,
                Outcome::List(list) => Reply::List(List {
                    items: list.items,
                    resource_version: list.resource_version.to_string(),
                    continue_token: list.continue_token,
                    remaining: list.remaining,
                }),
            })
        })
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        if let Some(remote) = self.core.aggregated.find(&request.resource.group_version()) {
            let rendered = Rendered::of(&Request { verb: Verb::Watch, ..request });
            return Box::pin(async move {
                Ok(client::https::events(self.ask(remote, rendered).await?.into_body()))
            });
        }
        let call = Call { verb: Verb::Watch, ..self.call_of(request).0 };
        Box::pin(async move {
            let recording = self.record(&call, false);
            let watching = match self.enter(call).await {
                Ok(request) => pipeline::watch(&self.core, &request).await,
                Err(error) => Err(error),
            };
            let watching = match (watching, recording) {
                (Ok(watching), recording) => (watching, recording),
                (Err(error), recording) => {
                    if let Some(recording) = recording {
                        recording.finish(error.code(), None);
                    }
                    faults::log(&error);
                    return Err(error);
                }
            };
            let next = |(mut watching, recording): (Watching, Option<Recording>)| async {
                let item = watching.next().await?;
                Some((item.map(event_of), (watching, recording)))
            };
            let stream = futures_util::stream::unfold(watching, next);
            Ok(Box::pin(stream) as WatchStream)
        })
    }

    fn get_path(&self, path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        let bare = path.split('?').next().unwrap_or_default();
        if let Some(remote) = self.core.aggregated.find_path(bare) {
            return Box::pin(async move { self.ask_whole(remote, Rendered::get(path)).await });
        }
        Box::pin(async move {
            let credential = Credential::Component(self.identity.clone());
            let authenticated = pipeline::authenticate(&self.core, &credential, None)?;
            let class = flow::classify(authenticated.user(), "get", None, &path);
            let asked = ("get", path.as_str());
            let _allowed = pipeline::enter_path(&self.core, authenticated, class, asked).await?;
            crate::http::plain::get(&self.core, &path).ok_or_else(ApiError::no_such_resource)
        })
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        let table = self.core.aggregated.table();
        let is_own = |it: &&Arc<dyn Kind>| table.find(&it.names().gvr().group_version()).is_none();
        let kinds = self.core.registry.kinds();
        let kinds: Vec<Arc<dyn Kind>> = kinds.iter().filter(is_own).cloned().collect();
        // The first version of a group that has the resource is the preferred one.
        let mut preferred: BTreeMap<GroupResource, GroupVersion> = BTreeMap::new();
        for version in api::discovery_documents::group_versions(&kinds) {
            for kind in kinds.iter().filter(|it| it.names().gvr().group_version() == version) {
                preferred.entry(kind.names().group_resource()).or_insert_with(|| version.clone());
            }
        }
        let is_preferred = |kind: &&Arc<dyn Kind>| {
            let names = kind.names();
            preferred.get(&names.group_resource()) == Some(&names.gvr().group_version())
        };
        let discovered = kinds
            .iter()
            .filter(is_preferred)
            .map(|kind| Discovered {
                resource: kind.names().gvr(),
                kind: kind.names().kind.clone(),
                scope: match kind.scope() {
                    Scope::Cluster => Scope::Cluster,
                    Scope::Namespaced => Scope::Namespaced,
                },
                verbs: kind.verbs().iter().map(|it| (*it).to_owned()).collect(),
            })
            .chain(table.discovered())
            .collect();
        Box::pin(std::future::ready(Ok(discovered)))
    }
}

fn event_of(item: WatchItem) -> WatchEvent {
    match item {
        WatchItem::Object(kind, object) => WatchEvent { kind, object, is_initial_end: false },
        WatchItem::Event(event) => {
            WatchEvent { kind: event.kind, object: event.object().clone(), is_initial_end: false }
        }
        WatchItem::Bookmark { revision, is_initial_end } => {
            let meta = Meta { resource_version: revision, ..Meta::default() };
            let object = Arc::new(Stored::new(meta, Bytes::new()));
            WatchEvent { kind: WatchEventKind::Bookmark, object, is_initial_end }
        }
    }
}
