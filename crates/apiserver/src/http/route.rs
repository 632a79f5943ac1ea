//! One HTTP request from its head to its response.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::protobuf::{self, Envelope};
use apimachinery::{ApiError, Reason, User};
use authn::Credential;
use bytes::Bytes;
use client::{PatchKind, Verb};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::flow::{self, Class};
use super::negotiate::{Form, form, form_of_text};
use super::path::{self, ResourcePath};
use super::query::{Query, Waits};
use super::respond::{self, Wish};
use super::table::Include;
use super::{Body, connect, plain, status, watch, yaml};
use crate::kubelets::location::Stream;
use crate::pipeline::{self, Body as CallBody, Call, Outcome};
use crate::server::Core;

const BODY_MAX: usize = 3 * 1024 * 1024;

pub(super) async fn answer(
    core: &Arc<Core>,
    certificate: Option<Arc<[u8]>>,
    request: Request<Incoming>,
) -> Response<Body> {
    let audit_id = request
        .headers()
        .get("audit-id")
        .cloned()
        .or_else(|| HeaderValue::from_str(&core.world.random.uuid()).ok());
    let accept = request.headers().get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let errors_in = form(accept).unwrap_or(Form::Plain);
    let mut class = None;
    let mut response = match routed(core, certificate, request, &mut class).await {
        Ok(response) => response,
        Err(error) => status::refuse_in(errors_in, &error),
    };
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

async fn routed(
    core: &Arc<Core>,
    certificate: Option<Arc<[u8]>>,
    request: Request<Incoming>,
    class: &mut Option<Class>,
) -> Result<Response<Body>, ApiError> {
    let (head, body) = request.into_parts();
    let credential = credential(&head.headers, certificate);
    let impersonate = impersonation(&head.headers)?;
    let query = Query::parse(head.uri.query());
    let url_path = head.uri.path();
    let authenticated = pipeline::authenticate(core, &credential, impersonate.as_ref())?;
    let Some(target) = path::parse(url_path) else {
        let verb = head.method.as_str().to_ascii_lowercase();
        *class = Some(flow::classify(authenticated.user(), &verb, None, url_path));
        pipeline::authorize_path(core, &authenticated, &verb, url_path)?;
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return Err(pipeline::method_not_allowed());
        }
        let answer = plain::answer(core, url_path, &query, &head.headers).await;
        return Ok(answer.unwrap_or_else(|| missing(url_path)));
    };
    if let Some(stream) = Stream::of(&target) {
        let verb = verb_of(&head.method, &target, false)?;
        *class = Some(flow::classify(authenticated.user(), verb.name(), Some("pods"), url_path));
        return connect::answer(core, stream, target, verb, (credential, impersonate), head).await;
    }
    let list = query.list_options()?;
    let verb = verb_of(&head.method, &target, query.flag("watch"))?;
    let kind = flow::classify(
        authenticated.user(),
        verb.name(),
        Some(&target.resource.resource),
        url_path,
    );
    *class = Some(kind);
    let accept = head.headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let kinds = core.registry.kinds();
    let form = match kinds.find(&target.resource) {
        Some(kind) if !kind.is_custom() => form(accept)?,
        _ => form_of_text(accept)?,
    };
    let wish = wish_of(core, form, &query, &head.headers);
    let bytes = read(body).await?;
    let (body, Waits(waits)) = body_of(verb, &head.headers, &query, bytes)?;
    let call = Call {
        credential,
        impersonate,
        verb,
        write: query.write_options()?,
        list,
        body,
        user_agent: manager(&head.headers),
        resource: target.resource,
        namespace: target.namespace,
        name: target.name,
        subresource: target.subresource,
    };
    if verb == Verb::Watch {
        let watching = pipeline::watch(core, call).await?;
        return Ok(watch::respond(watching, wish));
    }
    let is_mutating = !matches!(verb, Verb::Get | Verb::List);
    let _seat = core.flow.enter(kind, is_mutating).await?;
    let mut answer = pipeline::call(core, call).await?;
    if waits && matches!(&answer.outcome, Outcome::Object(it) if it.meta.is_deleting) {
        answer.code = 202;
    }
    Ok(respond::answer(answer, wish))
}

/// Below `/api` and `/apis` there could be resources; elsewhere there is nothing.
fn missing(path: &str) -> Response<Body> {
    if path.starts_with("/api/") || path.starts_with("/apis/") {
        status::refuse(&ApiError::no_such_resource())
    } else {
        status::text(404, "404 page not found\n")
    }
}

fn wish_of(core: &Core, form: Form, query: &Query, headers: &HeaderMap) -> Wish {
    let text = |name| headers.get(name).and_then(|it: &HeaderValue| it.to_str().ok());
    Wish {
        form,
        include: Include::parse(query.get("includeObject")),
        is_pretty: query.flag("pretty"),
        accepts_gzip: text(header::ACCEPT_ENCODING).is_some_and(|it| it.contains("gzip")),
        now: core.world.clock.now(),
    }
}

fn credential(headers: &HeaderMap, certificate: Option<Arc<[u8]>>) -> Credential {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|it| it.to_str().ok())
        .and_then(|it| it.strip_prefix("Bearer ").or_else(|| it.strip_prefix("bearer ")));
    match (certificate, bearer) {
        (Some(certificate), _) => Credential::Certificate(certificate.to_vec()),
        (None, Some(token)) => Credential::Bearer(token.trim().to_owned()),
        (None, None) => Credential::None,
    }
}

fn impersonation(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|it| it.to_str().ok()).map(str::to_owned).collect()
    };
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) =
            (name.as_str().strip_prefix("impersonate-extra-"), value.to_str())
        {
            let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().push(value.to_owned());
        }
    }
    let user = User {
        name: texts("impersonate-user").pop().unwrap_or_default(),
        uid: texts("impersonate-uid").pop().unwrap_or_default(),
        groups: texts("impersonate-group"),
        extra,
    };
    if user == User::default() {
        return Ok(None);
    }
    if user.name.is_empty() {
        return Err(ApiError::internal(
            "requested impersonation without specifying the user to impersonate",
        ));
    }
    Ok(Some(user))
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
        _ => return Err(pipeline::method_not_allowed()),
    })
}

async fn read(body: Incoming) -> Result<Bytes, ApiError> {
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(err) if err.is::<LengthLimitError>() => Err(ApiError::new(
            Reason::RequestEntityTooLarge,
            "Request entity too large: limit is 3145728",
        )),
        Err(err) => Err(ApiError::bad_request(format!("the body could not be read: {err}"))),
    }
}

/// The writer's name when it gives none.
fn manager(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|it| it.to_str().ok());
    let name = agent.unwrap_or_default().split('/').next().unwrap_or_default();
    let name = if name.is_empty() { "unknown" } else { name };
    name.chars().take(128).collect()
}

fn body_of(
    verb: Verb,
    headers: &HeaderMap,
    query: &Query,
    bytes: Bytes,
) -> Result<(CallBody, Waits), ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
    let body = match verb {
        Verb::Get | Verb::List | Verb::Watch => CallBody::Empty,
        Verb::Delete | Verb::DeleteCollection => {
            let bytes = match kind {
                _ if bytes.is_empty() => bytes,
                protobuf::MEDIA_TYPE => options_to_json(&bytes)?,
                _ => to_json(kind, bytes)?,
            };
            let (options, waits) = query.delete_options(&bytes)?;
            return Ok((CallBody::Delete(options), waits));
        }
        Verb::Patch => {
            let forms = [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic, PatchKind::Apply];
            let form = forms.into_iter().find(|it| it.content_type() == kind);
            form.map(|it| CallBody::Patch(it, bytes)).ok_or_else(|| {
                unsupported(
                    "application/json-patch+json, application/merge-patch+json, \
                     application/strategic-merge-patch+json, application/apply-patch+yaml",
                )
            })?
        }
        Verb::Create | Verb::Update if kind == protobuf::MEDIA_TYPE => CallBody::Protobuf(bytes),
        Verb::Create | Verb::Update => CallBody::Json(to_json(kind, bytes)?),
    };
    Ok((body, Waits::default()))
}

/// DeleteOptions belong to every group: only the kind is looked at.
fn options_to_json(bytes: &[u8]) -> Result<Bytes, ApiError> {
    let cannot = |why: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("DeleteOptions cannot be decoded: {why}"))
    };
    let envelope = Envelope::parse(bytes).map_err(|err| cannot(&err))?;
    if !matches!(envelope.kind, "" | "DeleteOptions") {
        return Err(cannot(&format_args!("no kind {:?} is expected here", envelope.kind)));
    }
    let message = protobuf::message(protobuf::DELETE_OPTIONS).expect("the table has DeleteOptions");
    Ok(envelope.to_json(message).map_err(|err| cannot(&err))?.into())
}

fn to_json(kind: &str, bytes: Bytes) -> Result<Bytes, ApiError> {
    match kind {
        // What curl sends when nobody says otherwise; upstream takes any body as JSON then.
        "application/json" | "" | "application/x-www-form-urlencoded" => Ok(bytes),
        "application/yaml" | "text/yaml" => {
            let value = yaml::parse(&bytes).map_err(|why| {
                ApiError::bad_request(format!("error converting YAML to JSON: {why}"))
            })?;
            Ok(value.to_string().into())
        }
        _ => Err(unsupported(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

pub(crate) fn unsupported(accepted: &str) -> ApiError {
    ApiError::new(
        Reason::UnsupportedMediaType,
        format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ),
    )
}
