//! Requests that another server answers: who asks and whether they may is decided here, before it
//! hears of them.

use std::sync::Arc;

use apimachinery::{ApiError, User};
use authn::Authenticated;
use authz::{Attributes, Authorized};
use http::request::Parts as Head;
use http::{HeaderName, Method, Response, StatusCode};
use http_body_util::BodyExt;

use super::offered::Offered;
use super::path::{self, ResourcePath};
use super::query::Query;
use super::subject::subject;
use super::{Body, status};
use crate::aggregated::Remote;
use crate::flow::{self, Class, Length, Seat};
use crate::metrics::By;
use crate::pipeline::hooks::Passing;
use crate::pipeline::{self, Core};

/// Paths below these may lead to streams, whoever serves them.
const STREAMS: &[&str] = &["attach", "exec", "log", "portforward", "proxy"];

/// What a request is about, as authorization and flow control see it.
pub(crate) struct Asked {
    attributes: Attributes,
    length: Length,
}

impl Asked {
    /// A slash that is encoded is refused: whoever reads the path after us may take it for one that
    /// is not, and then what was authorized is not what is done.
    pub(crate) fn of(
        method: &Method,
        url_path: &str,
        query: Option<&str>,
    ) -> Result<Self, ApiError> {
        if url_path.to_ascii_lowercase().contains("%2f") {
            return Err(ApiError::bad_request("the path has an encoded slash"));
        }
        let lower = method.as_str().to_ascii_lowercase();
        let Some(target) = path::parse_any(url_path) else {
            let length = if is_read(method) { Length::Read } else { Length::Write };
            return Ok(Self { attributes: Attributes::path(&lower, url_path), length });
        };
        let verb = verb_of(method, &target, Query::parse(query).flag("watch"));
        let is_stream = leads_to_stream(&target);
        let length = match verb {
            "watch" => Length::Long,
            _ if is_stream => Length::Long,
            _ if is_read(method) => Length::Read,
            _ => Length::Write,
        };
        let attributes = Attributes {
            verb: verb.to_owned(),
            group: target.resource.group,
            version: target.resource.version,
            resource: target.resource.resource,
            subresource: target.subresource.unwrap_or_default(),
            namespace: target.namespace.unwrap_or_default(),
            name: target.name.unwrap_or_default(),
            is_resource: true,
            ..Attributes::default()
        };
        Ok(Self { attributes: attributes.within_itself(), length })
    }

    pub(crate) fn class(&self, user: &User, url_path: &str) -> Class {
        let resource = Some(self.attributes.resource.as_str()).filter(|it| !it.is_empty());
        flow::classify(user, &self.attributes.verb, resource, url_path)
    }

    pub(crate) async fn enter(
        self,
        core: &Core,
        authenticated: Authenticated,
        class: Class,
    ) -> Result<(Authorized, Seat), ApiError> {
        let asked = (self.attributes, self.length);
        pipeline::enter_elsewhere(core, authenticated, class, asked).await
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

pub(super) fn leads_to_stream(target: &ResourcePath) -> bool {
    target.subresource.as_deref().is_some_and(|it| STREAMS.contains(&it))
}

/// What other servers make of a method is theirs to say: none is refused here.
fn verb_of(method: &Method, target: &ResourcePath, watches: bool) -> &'static str {
    let has_name = target.name.is_some();
    match (method.as_str(), has_name) {
        ("GET" | "HEAD", _) if target.is_watch => "watch",
        ("GET" | "HEAD", false) if watches => "watch",
        ("GET" | "HEAD", false) => "list",
        ("GET" | "HEAD", true) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", false) => "deletecollection",
        ("DELETE", true) => "delete",
        _ => "",
    }
}

/// There was no room for a request: its server does not count what it never saw.
pub(super) fn refused(core: &Core, remote: &Remote, head: &Head, err: &ApiError) {
    if err.code() == StatusCode::TOO_MANY_REQUESTS.as_u16() {
        let told = core.aggregated.told(&remote.group_version);
        let subject = subject(head, &remote.group_version, told.as_deref());
        core.metrics.elsewhere.ended(&subject, By::FlowControl, err.code());
    }
}

/// A request of a client.
pub(super) async fn answer(
    core: &Arc<Core>,
    remote: Arc<Remote>,
    let_in: (Authorized, Seat),
    (head, body): (Head, Offered),
) -> Result<Response<Body>, ApiError> {
    let audit_id = head.extensions.get::<AuditHeader>().map(|it| it.0.clone());
    let body = Box::new(|| body.take().map(BodyExt::boxed_unsync));
    let passing = Passing { body, audit_id, ..Passing::new(let_in, head) };
    core.aggregator.pass_on(core, remote, passing).await
}

/// What a request is called in logs, on its way to other servers.
#[derive(Clone)]
pub(super) struct AuditHeader(pub(super) http::HeaderValue);

/// Somebody else's description of what is theirs: asked for by this server, for whoever may see
/// ours.
pub(super) async fn document(
    core: &Arc<Core>,
    remote: Arc<Remote>,
    let_in: (Authorized, Seat),
    head: &Head,
) -> Result<Response<Body>, ApiError> {
    const KEPT: &[HeaderName] = &[
        http::header::ACCEPT,
        http::header::ACCEPT_ENCODING,
        http::header::IF_NONE_MATCH,
        http::header::USER_AGENT,
    ];
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(pipeline::method_not_allowed());
    }
    let (mut own, ()) = http::Request::new(()).into_parts();
    (own.method, own.uri) = (head.method.clone(), head.uri.clone());
    for name in KEPT {
        own.headers.extend(head.headers.get_all(name).iter().map(|it| (name.clone(), it.clone())));
    }
    let user = User::new("system:aggregator", &[]);
    let passing = Passing { user, ..Passing::new(let_in, own) };
    if !remote.is_available {
        return Ok(status::text(503, "service unavailable\n"));
    }
    core.aggregator.pass_on(core, remote, passing).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_authorized_as_what_it_is() {
        let check = |method: &str, uri: &str, expected: &str| {
            let uri: http::Uri = uri.parse().unwrap();
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let asked = Asked::of(&method, uri.path(), uri.query());
            let Asked { attributes: it, length } = asked.expect("a path");
            let what = match it.is_resource {
                true => format!("{}/{}/{}/{}", it.namespace, it.resource, it.name, it.subresource),
                false => it.path.clone(),
            };
            assert_eq!(format!("{} {what} {length:?}", it.verb), expected);
        };
        let base = "/apis/example.org/v1";
        check("GET", base, "get /apis/example.org/v1 Read");
        check("POST", base, "post /apis/example.org/v1 Write");
        check("GET", &format!("{base}/namespaces/a/x"), "list a/x// Read");
        check("GET", &format!("{base}/x?watch=1"), "watch /x// Long");
        check("GET", &format!("{base}/watch/x"), "watch /x// Long");
        check("GET", &format!("{base}/namespaces/a/x/b"), "get a/x/b/ Read");
        check("POST", &format!("{base}/namespaces/a/x"), "create a/x// Write");
        check("POST", &format!("{base}/x/b"), "create /x/b/ Write");
        check("PUT", &format!("{base}/x/b"), "update /x/b/ Write");
        check("PATCH", &format!("{base}/x/b/status"), "patch /x/b/status Write");
        check("DELETE", &format!("{base}/x"), "deletecollection /x// Write");
        check("DELETE", &format!("{base}/x/b"), "delete /x/b/ Write");
        check("GET", &format!("{base}/x/b/exec"), "get /x/b/exec Long");
        for hidden in ["x/b%2Fexec", "namespaces/a%2f../x"] {
            let refused = Asked::of(&Method::GET, &format!("{base}/{hidden}"), None);
            assert_eq!(refused.err().map(|it| it.code()), Some(400), "{hidden}");
        }
        // Deeper than resources go: still the same object's.
        check("GET", &format!("{base}/namespaces/a/x/b/c/d/e"), "get a/x/b/c Read");
    }
}
