//! What a server sends, as objects at rest. Only the metadata is read; the rest stays bytes. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::protobuf::{self, Envelope};
use api::{Meta, Pairs, Stored};
use apimachinery::{ApiError, ObjectKey, Reason};
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Status};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::transport::{List, Reply, WatchEvent, WatchEventKind};

#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
    #[serde(default)]
    metadata: HeadMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, IgnoredText>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<u64>,
}

/// A value that is there and does not matter.
struct IgnoredText;

impl<'de> Deserialize<'de> for IgnoredText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

#[derive(Deserialize)]
struct ListBody<'a> {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: HeadMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct EventBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl HeadMeta {
    fn into_meta(self) -> Meta {
        Meta {
            key: ObjectKey::new(self.namespace.unwrap_or_default(), self.name.unwrap_or_default()),
            uid: self.uid.unwrap_or_default(),
            resource_version: self
                .resource_version
                .and_then(|it| it.parse().ok())
                .unwrap_or_default(),
            labels: self.labels.unwrap_or_default().into(),
            owner_references: self.owner_references.unwrap_or_default(),
            finalizers: self.finalizers.unwrap_or_default(),
            is_deleting: self.deletion_timestamp.is_some(),
            is_outdated: false,
            fields: Pairs::default(),
        }
    }
}

fn malformed(err: impl std::error::Error + Send + Sync + 'static) -> ApiError {
    ApiError::internal("the server's answer is not what was asked for").with_source(err)
}

/// An answer in the form that the rest reads.
pub(super) fn as_json(bytes: Bytes) -> Result<Bytes, ApiError> {
    if !Envelope::is_at(&bytes) {
        return Ok(bytes);
    }
    let envelope = Envelope::parse(&bytes).map_err(malformed)?;
    // What is not of any group is of the types that all share.
    let named = |it: &str| protobuf::message_named(it, envelope.kind);
    let message = named(envelope.api_version).or_else(|| named("meta.k8s.io/v1"));
    let unknown = || ApiError::internal("the server's answer is of a kind that is not known");
    Ok(envelope.to_json(message.ok_or_else(unknown)?).map_err(malformed)?.into())
}

/// The answer to a call: an object, a list or a Status of success.
pub fn reply(bytes: &Bytes, is_list: bool) -> Result<Reply, ApiError> {
    if is_list {
        return list(bytes).map(Reply::List);
    }
    let head: Head = serde_json::from_slice(bytes).map_err(malformed)?;
    let kind = head.kind.as_deref().unwrap_or_default();
    // What DELETE of a collection answers with tells nothing that a caller waits for.
    if kind == "Status" || kind.ends_with("List") {
        return Ok(Reply::Done);
    }
    let meta = head.metadata.into_meta();
    Ok(Reply::Object(Arc::new(Stored::new(meta, bytes.clone()))))
}

fn list(bytes: &Bytes) -> Result<List, ApiError> {
    let body: ListBody<'_> = serde_json::from_slice(bytes).map_err(malformed)?;
    let kind = body.kind.strip_suffix("List").unwrap_or(&body.kind);
    let items = body.items.unwrap_or_default().into_iter();
    let items =
        items.map(|it| item(it.get(), &body.api_version, kind)).collect::<Result<_, _>>()?;
    Ok(List {
        items,
        resource_version: body.metadata.resource_version.unwrap_or_default(),
        continue_token: body.metadata.continue_token.filter(|it| !it.is_empty()),
        remaining: body.metadata.remaining_item_count,
    })
}

/// Items of built-in lists come without apiVersion and kind; objects at rest have them.
fn item(text: &str, api_version: &str, kind: &str) -> Result<Arc<Stored>, ApiError> {
    let head: Head = serde_json::from_str(text).map_err(malformed)?;
    let rest = text.trim_start().strip_prefix('{').unwrap_or(text);
    let bytes = if head.kind.is_some() || rest.trim_start().starts_with('}') {
        Bytes::copy_from_slice(text.as_bytes())
    } else {
        Bytes::from(format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}",{rest}"#))
    };
    Ok(Arc::new(Stored::new(head.metadata.into_meta(), bytes)))
}

/// One line of a watch.
pub(super) fn event(line: &[u8]) -> Result<WatchEvent, ApiError> {
    let body: EventBody<'_> = serde_json::from_slice(line).map_err(malformed)?;
    let object = body.object.get();
    let kind = match body.kind {
        "ADDED" => WatchEventKind::Added,
        "MODIFIED" => WatchEventKind::Modified,
        "DELETED" => WatchEventKind::Deleted,
        "BOOKMARK" => WatchEventKind::Bookmark,
        _ => return Err(error(500, object.as_bytes(), None)),
    };
    let head: Head = serde_json::from_str(object).map_err(malformed)?;
    let annotations = head.metadata.annotations.as_ref();
    let is_initial_end = kind == WatchEventKind::Bookmark
        && annotations.is_some_and(|it| it.contains_key("k8s.io/initial-events-end"));
    let bytes = Bytes::copy_from_slice(object.as_bytes());
    let object = Arc::new(Stored::new(head.metadata.into_meta(), bytes));
    Ok(WatchEvent { kind, object, is_initial_end })
}

/// The error of a refused call. What is not a Status came from something between us and the server.
pub fn error(code: u16, body: &[u8], retry_after: Option<i32>) -> ApiError {
    let error = match serde_json::from_slice::<Status>(body) {
        Ok(status) if status.status.as_deref() != Some("Success") => {
            let code = status.code.filter(|it| *it != 0).or_else(|| Some(i32::from(code)));
            ApiError::from_status(Status { code, ..status })
        }
        // A path that no server there knows, as Go answers it.
        _ if code == 404 && body.starts_with(b"404 page not found") => ApiError::no_such_resource(),
        _ => {
            let text = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
            let known = Reason::ALL.iter().copied().find(|it| it.code() == code);
            ApiError::new(known.unwrap_or(Reason::Unknown), format!("HTTP status {code}: {text}"))
        }
    };
    match (error.retry_after_seconds(), retry_after) {
        (None, Some(seconds)) => error.with_retry_after(seconds),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{as_json, error, event, reply};
    use crate::transport::{Reply, WatchEventKind};

    #[test]
    fn list_items_get_the_kind_of_their_list() {
        let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":""},
            "items":[{"metadata":{"name":"a","resourceVersion":"7","labels":{"x":"y"}}}]}"#;
        let Ok(Reply::List(list)) = reply(&Bytes::from_static(body.as_bytes()), true) else {
            panic!("not a list");
        };
        assert_eq!((list.resource_version.as_str(), list.continue_token), ("9", None));
        let item = &list.items[0];
        assert_eq!((item.meta.key.name.as_str(), item.meta.resource_version), ("a", 7));
        let object: serde_json::Value = serde_json::from_slice(&item.bytes).unwrap();
        assert_eq!((&object["kind"], &object["apiVersion"]), (&"Pod".into(), &"v1".into()));
    }

    #[test]
    fn protobuf_is_read_as_json() {
        let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"7"},"data":{"x":"y"}}"#;
        let encoded = api::protobuf::encode_object(object.as_bytes()).unwrap();
        let Ok(Reply::Object(read)) = reply(&as_json(encoded.into()).unwrap(), false) else {
            panic!("not an object");
        };
        assert_eq!((read.meta.key.name.as_str(), read.meta.resource_version), ("a", 7));
        let status = r#"{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"gone"}"#;
        let encoded = api::protobuf::encode_document(status.as_bytes()).unwrap();
        let refused = error(404, &as_json(encoded.into()).unwrap(), None);
        assert!(refused.is_not_found() && refused.message() == "gone", "{refused}");
        let text = Bytes::from_static(b"{}");
        assert_eq!(as_json(text.clone()).unwrap(), text);
    }

    #[test]
    fn the_bookmark_after_the_initial_events_is_told_from_others() {
        let check = |annotations: &str, expected| {
            let line = format!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{{"resourceVersion":"5","annotations":{annotations}}}}}}}"#
            );
            let event = event(line.as_bytes()).unwrap();
            assert_eq!(event.kind, WatchEventKind::Bookmark);
            assert_eq!((event.object.meta.resource_version, event.is_initial_end), (5, expected));
        };
        check(r#"{"k8s.io/initial-events-end":"true"}"#, true);
        check("null", false);
    }

    #[test]
    fn errors_keep_their_reason_wherever_they_come_from() {
        let gone = br#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}}"#;
        assert!(event(gone).unwrap_err().is_expired());
        let proxy = error(503, b"upstream is down", Some(3));
        assert!(proxy.is_retryable());
        assert_eq!(proxy.retry_after_seconds(), Some(3));
        assert_eq!(proxy.message(), "HTTP status 503: upstream is down");
    }
}
