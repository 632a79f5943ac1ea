//! One HTTP request from its head to its response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use admission::Notes;
use api::Part;
use api::kind::Door;
use apimachinery::ApiError;
use authn::{Authenticated, ClientCertificate, credentials};
use client::{ListOptions, PatchKind, Verb};
use futures_util::FutureExt as _;
use http::request::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use telemetry::logs::{AuditId, with_audit_id};

use super::elsewhere::{self, Asked};
use super::line::Line;
use super::negotiate::{self, Endpoint, Form, Shape};
use super::offered::Offered;
use super::path::{self, ResourcePath};
use super::query::Query;
use super::respond::{self, Wish};
use super::table::Include;
use super::{Body, body, explained, history, plain, reach, status, table, watch, websocket};
use crate::faults;
use crate::flow::{self, Class};
use crate::metrics::{About, Recording};
use crate::pipeline::hooks::Exchange;
use crate::pipeline::{self, Call, Core};

/// What is found out about a request on its way, for its answer's headers and for the metrics.
#[derive(Default)]
struct Seen {
    class: Option<Class>,
    /// Taken by answers that go on for long.
    recording: Option<Recording>,
    notes: Notes,
}

impl Seen {
    fn audit_id(&self) -> http::Extensions {
        let mut extensions = http::Extensions::new();
        let id = self.notes.audit_id().map(ToString::to_string);
        let id = id.and_then(|it| HeaderValue::from_str(&it).ok());
        if let Some(id) = id {
            extensions.insert(elsewhere::AuditHeader(id));
        }
        extensions
    }
}

pub(super) async fn answer(
    core: &Arc<Core>,
    certificate: Option<Arc<ClientCertificate>>,
    request: Request<Incoming>,
) -> Response<Body> {
    let audit_id = request
        .headers()
        .get("audit-id")
        .cloned()
        .or_else(|| HeaderValue::from_str(&core.world.random.uuid()).ok());
    let errors_in = form_of_errors(&request);
    let id = audit_id.as_ref().and_then(|it| it.to_str().ok()).unwrap_or_default();
    let (id, line) = (AuditId::new(id), Line::begin(&request));
    let notes = match explained::is_asked(request.headers()) {
        true => Notes::observed(Some(id.clone())),
        false => Notes::new(id.clone()),
    };
    let mut seen = Seen { notes: notes.clone(), ..Seen::default() };
    let routed = contain(routed(core, certificate, request, &mut seen));
    let mut response = with_audit_id(id.clone(), async {
        let refuse = |error| status::refuse_in(errors_in, &faults::tell(error, &id));
        let response = routed.await.unwrap_or_else(refuse);
        line.end(&response, &notes);
        response
    })
    .await;
    respond::warn(&mut response, &notes);
    let Seen { class, recording, .. } = seen;
    if let Some(recording) = recording {
        recording.finish(response.status().as_u16(), response.body().size_hint().exact());
    }
    let headers = response.headers_mut();
    if let Some(audit_id) = audit_id {
        headers.insert(HeaderName::from_static("audit-id"), audit_id);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    if let Some(Class { schema, level }) = class {
        let names = [
            ("x-kubernetes-pf-flowschema-uid", schema),
            ("x-kubernetes-pf-prioritylevel-uid", level),
        ];
        for (name, of) in names {
            if let Ok(uid) = HeaderValue::from_str(core.flow.uid(of)) {
                headers.insert(HeaderName::from_static(name), uid);
            }
        }
    }
    response
}

/// A mistake of ours that one request brings out is that request's: others on the connection go on.
async fn contain<T>(work: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("it does not say why").to_owned();
        let what = "This request caused apiserver to panic. Look in the logs for details.";
        Err(ApiError::internal(what).with_source(text))
    })
}

async fn routed(
    core: &Arc<Core>,
    certificate: Option<Arc<ClientCertificate>>,
    request: Request<Incoming>,
    seen: &mut Seen,
) -> Result<Response<Body>, ApiError> {
    let (mut head, body) = request.into_parts();
    let body = Offered::new(&head, body, &core.tasks);
    let proxies = core.config.front_proxy.headers.as_ref();
    let credential = credentials::credential(&head.headers, certificate, proxies)?;
    let impersonate = credentials::impersonation(&head.headers)?;
    let authenticated = pipeline::authenticate(core, &credential, impersonate.as_ref())?;
    let url_path = head.uri.path();
    if let Some(remote) = core.aggregated.find_path(url_path) {
        let asked = Asked::of(&head.method, url_path, head.uri.query())?;
        let class = asked.class(authenticated.user(), url_path);
        seen.class = Some(class);
        let let_in = asked.enter(core, authenticated, class).await;
        let let_in = let_in.inspect_err(|err| elsewhere::refused(core, &remote, &head, err))?;
        head.extensions.extend(seen.audit_id());
        return elsewhere::answer(core, remote, let_in, (head, body)).await;
    }
    let Some(target) = path::parse(url_path) else {
        let verb = head.method.as_str().to_ascii_lowercase();
        let kind = flow::classify(authenticated.user(), &verb, None, url_path);
        seen.class = Some(kind);
        seen.recording = core.metrics.requests.begin_path(url_path);
        return about_no_resource(core, authenticated, kind, &head).await;
    };
    let query = Query::parse(head.uri.query());
    let verb = verb_of(&head.method, &target, query.flag("watch"))?;
    seen.recording = record(core, verb, &target, &query, &head.headers);
    let resource = Some(target.resource.resource.as_str());
    let kind = flow::classify(authenticated.user(), verb.name(), resource, url_path);
    seen.class = Some(kind);
    if seen.notes.observer().is_some() {
        explained::validate(verb, &target, &query, &head.headers)?;
    }
    let group = target.resource.group.clone();
    let call = call_of(verb, target, &query, &head)?;
    let notes = seen.notes.clone();
    let entered = pipeline::enter(core, authenticated, kind, (call, notes)).await;
    if let (Err(err), Some(recording)) = (&entered, &seen.recording)
        && err.code() == StatusCode::TOO_MANY_REQUESTS.as_u16()
    {
        recording.turned_away();
    }
    let request = match entered {
        // Nobody is there to say what there is not.
        Err(err) if err.is_not_found() && !has_group(core, &group) => return Ok(missing()),
        entered => entered?,
    };
    carry_out(core, request, query, (head, body), seen).await
}

fn record(
    core: &Core,
    verb: Verb,
    target: &ResourcePath,
    query: &Query,
    headers: &HeaderMap,
) -> Option<Recording> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let about = About {
        verb,
        resource: &target.resource,
        namespace: target.namespace.as_deref(),
        name: target.name.as_deref(),
        subresource: target.subresource.as_deref(),
        is_dry_run: query.get("dryRun").is_some(),
        is_apply: kind == Some(PatchKind::Apply.content_type()),
    };
    core.metrics.requests.begin(about, &core.registry.kinds())
}

async fn about_no_resource(
    core: &Arc<Core>,
    authenticated: Authenticated,
    class: Class,
    head: &Head,
) -> Result<Response<Body>, ApiError> {
    let (verb, url_path) = (head.method.as_str().to_ascii_lowercase(), head.uri.path());
    let let_in = pipeline::enter_path(core, authenticated, class, (&verb, url_path)).await?;
    let described = url_path.strip_prefix("/openapi/v3");
    if let Some(remote) = described.and_then(|it| core.aggregated.find_path(it)) {
        return elsewhere::document(core, remote, let_in, head).await;
    }
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(pipeline::method_not_allowed());
    }
    let query = Query::parse(head.uri.query());
    if url_path == reach::PATH {
        return reach::answer(head, &query).await;
    }
    let answer = plain::answer(core, url_path, &query, &head.headers).await;
    if let Some(answer) = answer {
        return Ok(answer);
    }
    // Below `/api` and the groups that there are, there could be resources; elsewhere there is
    // nothing.
    let mut segments = url_path.trim_matches('/').split('/');
    let is_resource = match (segments.next(), segments.next()) {
        (Some("api"), Some(_)) => true,
        (Some("apis"), Some(group)) => has_group(core, group),
        _ => false,
    };
    if is_resource { Err(ApiError::no_such_resource()) } else { Ok(missing()) }
}

/// The body stays unread here: only the pipeline can, with a request that was let in.
async fn carry_out(
    core: &Arc<Core>,
    request: pipeline::Request,
    query: Query,
    (head, body): (Head, Offered),
    Seen { recording, notes, .. }: &mut Seen,
) -> Result<Response<Body>, ApiError> {
    if matches!(request.door(), Some(Door::Stream | Door::Proxy)) {
        let (recording, body) = (recording.take(), Box::new(|| body.take()));
        let exchange = Exchange { request, head, body, options: None, recording };
        return pipeline::connect(core, exchange).await;
    }
    let wish = wish_of(core, &request, &query, &head.headers)?;
    let verb = request.call.verb;
    if verb == Verb::Watch {
        let watching = pipeline::watch(core, &request).await?;
        negotiate::validate_stream(wish.form)?;
        return Ok(match websocket::is_asked_for(&head) {
            true => watch::respond_over_websocket(core, watching, wish, head, recording.take()),
            false => watch::respond(watching, wish, recording.take()),
        });
    }
    let about = (verb, request.kind.is_custom());
    let unread = body::unread(core, about, &head.headers, query, body);
    if let Some(observer) = notes.observer() {
        let user = request.user().clone();
        let outcome = pipeline::call(core, request, unread).await;
        return explained::answer(core, &user, (notes, observer), outcome);
    }
    let mut answer = pipeline::call(core, request, unread).await?;
    let own_bytes = respond::own_bytes(&answer, wish);
    if matches!(verb, Verb::Get | Verb::List) {
        core.flow.make_room(&mut answer.seat, own_bytes).await?;
    }
    core.heavy.run(own_bytes, || respond::answer(answer, wish)).await
}

fn call_of(verb: Verb, target: ResourcePath, query: &Query, head: &Head) -> Result<Call, ApiError> {
    let is_beyond_horizon = history::is_asked(verb, &head.headers)?;
    Ok(Call {
        verb,
        write: query.write_options(verb)?,
        list: ListOptions { is_beyond_horizon, ..query.list_options()? },
        body: pipeline::Body::Empty,
        user_agent: manager(&head.headers),
        resource: target.resource,
        namespace: target.namespace,
        name: target.name,
        subresource: target.subresource,
    })
}

fn has_group(core: &Core, group: &str) -> bool {
    let is_own = core.registry.kinds().has_group(group);
    group.is_empty() || is_own || core.aggregated.table().has_group(group)
}

fn missing() -> Response<Body> {
    let mut response = status::text(404, "404 page not found\n");
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|it| it.to_str().ok())
}

fn form_of_errors<T>(request: &Request<T>) -> Form {
    let (query, headers) = (Query::parse(request.uri().query()), request.headers());
    let form = negotiate::form_of_error(header_text(headers, header::ACCEPT));
    Form { is_pretty: form.is_pretty || is_pretty(&query, headers), ..form }
}

/// By the parameter, or for people with a browser or a tool that shows what comes.
pub(super) fn is_pretty(query: &Query, headers: &HeaderMap) -> bool {
    match query.get("pretty").filter(|it| !it.is_empty()) {
        Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => header_text(headers, header::USER_AGENT).is_some_and(|agent| {
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|it| agent.starts_with(it))
        }),
    }
}

/// What an endpoint can answer in. What is made and not kept has no table.
fn endpoint_of(request: &pipeline::Request) -> Endpoint {
    let has_table = match request.door() {
        None => request.kind.verbs().contains(&Verb::Get.name()),
        Some(door) => matches!(door, Door::Part(Part::Status) | Door::Scale),
    };
    Endpoint::Objects { has_protobuf: request.kind.has_protobuf(), has_table }
}

fn wish_of(
    core: &Core,
    request: &pipeline::Request,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Wish, ApiError> {
    let accept = header_text(headers, header::ACCEPT);
    let lists = request.door().is_none() && request.call.name.is_none();
    if !request.kind.is_custom() {
        let has_streams = lists && matches!(request.call.verb, Verb::List | Verb::Watch);
        negotiate::validate_media(accept, has_streams)?;
    }
    let form = negotiate::form(accept, endpoint_of(request))?;
    let asked = query.get("includeObject");
    let include = match Include::parse(asked) {
        None if form.shape == Shape::Table => {
            return Err(table::unknown_include(asked.unwrap_or_default()));
        }
        include => include.unwrap_or(Include::Metadata),
    };
    Ok(Wish {
        form: Form { is_pretty: form.is_pretty || is_pretty(query, headers), ..form },
        include,
        accepts_gzip: header_text(headers, header::ACCEPT_ENCODING).is_some_and(takes_gzip)
            && core.config.gates.is_enabled(features::API_RESPONSE_COMPRESSION),
        now: core.world.clock.now(),
    })
}

/// As upstream: the word alone counts.
fn takes_gzip(accepts: &str) -> bool {
    accepts.split(',').any(|it| it.trim() == "gzip")
}

fn verb_of(method: &Method, target: &ResourcePath, watches: bool) -> Result<Verb, ApiError> {
    let has_name = target.name.is_some();
    Ok(match (method.as_str(), has_name) {
        ("GET" | "HEAD", _) if target.is_watch => Verb::Watch,
        ("GET" | "HEAD", false) if watches => Verb::Watch,
        ("GET" | "HEAD", false) => Verb::List,
        ("GET" | "HEAD", true) => Verb::Get,
        ("POST", false) => Verb::Create,
        ("POST", true) if target.subresource.is_some() => Verb::Create,
        ("PUT", true) => Verb::Update,
        ("PATCH", true) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        ("OPTIONS", true) if target.subresource.is_some() => Verb::Options,
        _ => return Err(pipeline::method_not_allowed()),
    })
}

/// The writer's name when it gives none.
fn manager(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|it| it.to_str().ok());
    let name = agent.unwrap_or_default().split('/').next().unwrap_or_default();
    let name = if name.is_empty() { "unknown" } else { name };
    name.chars().take(128).collect()
}

#[cfg(test)]
mod tests {
    use apimachinery::ApiError;

    use super::contain;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let broken = async {
            tokio::task::yield_now().await;
            let text = "ä".to_owned();
            Ok::<_, ApiError>(text[..1].to_owned())
        };
        let error = contain(broken).await.expect_err("a panic");
        assert_eq!(error.code(), 500);
        assert!(error.message().contains("caused apiserver to panic"), "{error}");
        assert_eq!(contain(async { Ok(7) }).await.ok(), Some(7));
    }
}
