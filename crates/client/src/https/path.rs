//! A `Request` as method, path, query and body. Pure.

use bytes::Bytes;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::request::{DeleteOptions, Payload, Request, Verb};

/// Everything but what RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What goes on the wire.
pub struct Rendered {
    pub method: Method,
    /// With the query.
    pub path: String,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
    /// Whether what the server's store remembers beyond what clients can count on is asked for.
    pub is_beyond_horizon: bool,
}

impl Rendered {
    pub fn of(request: &Request) -> Self {
        render(request)
    }

    pub fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            content_type: None,
            body: Bytes::new(),
            is_beyond_horizon: false,
        }
    }
}

impl Rendered {
    /// If the body is an object of a kind that has it.
    pub(super) fn encode_as_protobuf(&mut self) {
        if self.content_type == Some(super::JSON)
            && let Ok(body) = api::protobuf::encode_object(&self.body)
        {
            self.content_type = Some(super::PROTOBUF);
            self.body = body.into();
        }
    }
}

pub(super) fn render(request: &Request) -> Rendered {
    let method = match request.verb {
        Verb::Get | Verb::List | Verb::Watch => Method::GET,
        Verb::Create => Method::POST,
        Verb::Update => Method::PUT,
        Verb::Patch => Method::PATCH,
        Verb::Delete | Verb::DeleteCollection => Method::DELETE,
        Verb::Options => Method::OPTIONS,
    };
    let query = query(request);
    let separator = if query.is_empty() { "" } else { "?" };
    let path = format!("{}{separator}{query}", path(request));
    let (content_type, body) = match &request.payload {
        Payload::Empty => (None, Vec::new()),
        Payload::Object(object) => (Some(super::JSON), object.encode()),
        Payload::Patch(kind, bytes) => (Some(kind.content_type()), bytes.to_vec()),
        Payload::Delete(options) => (Some(super::JSON), delete_options(options)),
    };
    let is_beyond_horizon = request.list.is_beyond_horizon;
    Rendered { method, path, content_type, body: body.into(), is_beyond_horizon }
}

fn path(request: &Request) -> String {
    let resource = &request.resource;
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let mut push = |segment: &str| {
        path.push('/');
        path.extend(utf8_percent_encode(segment, ESCAPED));
    };
    if let Some(namespace) = &request.namespace {
        push("namespaces");
        push(namespace);
    }
    push(&resource.resource);
    for segment in [&request.name, &request.subresource].into_iter().flatten() {
        push(segment);
    }
    path
}

fn query(request: &Request) -> String {
    let (list, write) = (&request.list, &request.write);
    let flag = |it: bool| it.then(|| "true".to_owned());
    let is_dry_run =
        write.dry_run || matches!(&request.payload, Payload::Delete(options) if options.dry_run);
    let pairs = [
        ("watch", flag(request.verb == Verb::Watch)),
        ("labelSelector", list.label_selector.clone()),
        ("fieldSelector", list.field_selector.clone()),
        ("limit", list.limit.map(|it| it.to_string())),
        ("continue", list.continue_token.clone()),
        ("resourceVersion", list.resource_version.clone()),
        ("resourceVersionMatch", list.resource_version_match.clone()),
        ("sendInitialEvents", list.send_initial_events.map(|it| it.to_string())),
        ("allowWatchBookmarks", flag(list.allow_watch_bookmarks)),
        ("timeoutSeconds", list.timeout_seconds.map(|it| it.to_string())),
        ("dryRun", is_dry_run.then(|| "All".to_owned())),
        ("fieldManager", write.field_manager.clone()),
        ("fieldValidation", write.field_validation.clone()),
        ("force", flag(write.force)),
    ];
    let pairs: Vec<String> = pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(&value, ESCAPED)))
        .collect();
    pairs.join("&")
}

fn delete_options(options: &DeleteOptions) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("apiVersion".to_owned(), json!("v1"));
    body.insert("kind".to_owned(), json!("DeleteOptions"));
    if let Some(seconds) = options.grace_period_seconds {
        body.insert("gracePeriodSeconds".to_owned(), json!(seconds));
    }
    if let Some(propagation) = options.propagation {
        body.insert("propagationPolicy".to_owned(), json!(propagation.name()));
    }
    let mut preconditions = Map::new();
    if let Some(uid) = &options.preconditions.uid {
        preconditions.insert("uid".to_owned(), json!(uid));
    }
    if let Some(version) = &options.preconditions.resource_version {
        preconditions.insert("resourceVersion".to_owned(), json!(version));
    }
    if !preconditions.is_empty() {
        body.insert("preconditions".to_owned(), Value::Object(preconditions));
    }
    if options.dry_run {
        body.insert("dryRun".to_owned(), json!(["All"]));
    }
    Value::Object(body).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use apimachinery::GroupVersionResource;

    use super::render;
    use crate::request::{
        DeleteOptions, ListOptions, Payload, Preconditions, Propagation, Request, Verb,
        WriteOptions,
    };

    fn request(verb: Verb, group: &str, resource: &str) -> Request {
        Request {
            verb,
            resource: GroupVersionResource::new(group, "v1", resource),
            namespace: None,
            name: None,
            subresource: None,
            write: WriteOptions::default(),
            list: ListOptions::default(),
            payload: Payload::Empty,
        }
    }

    fn check(request: &Request, expected: &str) {
        let rendered = render(request);
        let body = String::from_utf8(rendered.body.to_vec()).unwrap();
        let text = format!("{} {} {body}", rendered.method, rendered.path);
        assert_eq!(text.trim_end(), expected);
    }

    #[test]
    fn paths_and_queries_are_those_of_the_api() {
        check(&request(Verb::Get, "", "nodes"), "GET /api/v1/nodes");
        let mut status = request(Verb::Update, "apps", "deployments");
        (status.namespace, status.name) = (Some("shop".to_owned()), Some("web".to_owned()));
        status.subresource = Some("status".to_owned());
        status.write.field_manager = Some("me".to_owned());
        check(&status, "PUT /apis/apps/v1/namespaces/shop/deployments/web/status?fieldManager=me");
        let mut watch = request(Verb::Watch, "", "pods");
        watch.list.label_selector = Some("app in (a,b)".to_owned());
        watch.list.allow_watch_bookmarks = true;
        check(
            &watch,
            "GET /api/v1/pods?watch=true&labelSelector=app%20in%20%28a%2Cb%29&allowWatchBookmarks=true",
        );
        let mut role = request(Verb::Get, "rbac.authorization.k8s.io", "clusterroles");
        role.name = Some("system:node/../x".to_owned());
        check(&role, "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode%2F..%2Fx");
    }

    #[test]
    fn delete_options_go_in_the_body() {
        let mut delete = request(Verb::Delete, "", "pods");
        delete.name = Some("a".to_owned());
        delete.payload = Payload::Delete(DeleteOptions {
            grace_period_seconds: Some(0),
            propagation: Some(Propagation::Orphan),
            preconditions: Preconditions { uid: Some("u".to_owned()), resource_version: None },
            dry_run: false,
        });
        check(
            &delete,
            r#"DELETE /api/v1/pods/a {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Orphan"}"#,
        );
    }
}
