//! A watch as a stream of JSON lines, or of protobuf frames. Plain lines and frames are made once
//! per event and shared by all watchers.

use std::sync::Arc;

use api::{Stored, protobuf};
use apimachinery::{ApiError, GroupVersionResource, User};
use authn::Component;
use bytes::{Bytes, BytesMut};
use client::{ListOptions, Verb, WatchEventKind, WriteOptions};
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use super::negotiate::Form;
use super::respond::Wish;
use super::table::Include;
use super::{Body, status, table};
use crate::cache::{frame, kind_name, protobuf_frame};
use crate::metrics::Recording;
use crate::pipeline::{self, Call, Core, WatchItem, Watching};

/// What is ready is sent together, up to this size.
const CHUNK_MAX: usize = 64 * 1024;

/// What a client that watches a resource gets as the body of the answer: the same stages and the
/// same frames, without a connection.
pub(crate) async fn body(
    core: &Arc<Core>,
    user: User,
    resource: GroupVersionResource,
    list: ListOptions,
) -> Result<Body, ApiError> {
    let call = Call {
        verb: Verb::Watch,
        resource,
        namespace: None,
        name: None,
        subresource: None,
        write: WriteOptions::default(),
        list,
        body: pipeline::Body::Empty,
        user_agent: String::new(),
    };
    let request = pipeline::enter_in_process(core, &Component::new(user), call).await?;
    let watching = pipeline::watch(core, &request).await?;
    let (form, include, now) = (Form::Plain, Include::Metadata, core.world.clock.now());
    let wish = Wish { form, include, is_pretty: false, accepts_gzip: false, now };
    Ok(respond(watching, wish, None).into_body())
}

struct Lines {
    watching: Watching,
    wish: Wish,
    /// The columns are in the first table alone.
    has_columns: bool,
    /// Until the watch ends.
    _recording: Option<Recording>,
}

pub(super) fn respond(
    watching: Watching,
    wish: Wish,
    recording: Option<Recording>,
) -> Response<Body> {
    let lines = Lines { watching, wish, has_columns: false, _recording: recording };
    let stream = futures_util::stream::unfold(lines, |mut lines| async {
        let chunk = lines.next().await?;
        Some((Ok(Frame::data(chunk)), lines))
    });
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    let media_type = match wish.form {
        Form::Protobuf => protobuf::MEDIA_TYPE_WATCH,
        _ => "application/json",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn metadata_frame(kind: WatchEventKind, object: &Stored) -> Bytes {
    frame(kind, table::metadata(&object.bytes).to_string().as_bytes())
}

impl Lines {
    async fn next(&mut self) -> Option<Bytes> {
        let first = match self.watching.next().await? {
            Ok(item) => self.line(&item),
            Err(error) => {
                let object = status::error_object(&error);
                if self.wish.form == Form::Protobuf {
                    let status = status::to_protobuf(&object);
                    return Some(protobuf::encode_event("ERROR", &status).into());
                }
                return Some(
                    [b"{\"type\":\"ERROR\",\"object\":", &object[..], b"}\n"].concat().into(),
                );
            }
        };
        let mut chunk: Option<BytesMut> = None;
        while chunk.as_ref().is_none_or(|it| it.len() < CHUNK_MAX) {
            let Some(item) = self.watching.next_ready() else { break };
            let line = self.line(&item);
            chunk.get_or_insert_with(|| BytesMut::from(&first[..])).extend_from_slice(&line);
        }
        Some(chunk.map_or(first, BytesMut::freeze))
    }

    fn line(&mut self, item: &WatchItem) -> Bytes {
        let (kind, object) = match item {
            WatchItem::Object(kind, object) => (*kind, object),
            WatchItem::Event(event) if self.wish.form == Form::Plain => return event.frame(),
            WatchItem::Event(event) if self.wish.form == Form::Protobuf => {
                return event.protobuf_frame();
            }
            WatchItem::Event(event) if self.wish.form == Form::Metadata => {
                return event.metadata_frame(|it| metadata_frame(event.kind, it));
            }
            WatchItem::Event(event) => (event.kind, event.object()),
            WatchItem::Bookmark { revision, is_initial_end } => {
                return self.bookmark(*revision, *is_initial_end);
            }
        };
        match self.wish.form {
            Form::Plain | Form::Discovery => frame(kind, &object.bytes),
            Form::Protobuf => protobuf_frame(kind, &object.bytes),
            Form::Metadata => metadata_frame(kind, object),
            Form::Table => {
                let meta = json!({ "resourceVersion": object.meta.resource_version.to_string() });
                let mut table = table::render(
                    self.watching.kind.as_ref(),
                    &[object],
                    meta,
                    self.wish.include,
                    self.wish.now,
                );
                if std::mem::replace(&mut self.has_columns, true)
                    && let Some(columns) = table.get_mut("columnDefinitions")
                {
                    *columns = Value::Null;
                }
                frame(kind, table.to_string().as_bytes())
            }
        }
    }

    fn bookmark(&self, revision: u64, is_initial_end: bool) -> Bytes {
        let names = self.watching.kind.names();
        let mut meta =
            json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if is_initial_end {
            meta["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.wish.form {
            Form::Plain | Form::Protobuf | Form::Discovery => {
                json!({ "kind": names.kind, "apiVersion": names.api_version(), "metadata": meta })
            }
            Form::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
            }),
            Form::Table => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": { "resourceVersion": revision.to_string() },
                "columnDefinitions": null,
                "rows": [{ "cells": [], "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
                } }],
            }),
        };
        if self.wish.form == Form::Protobuf {
            return protobuf_frame(WatchEventKind::Bookmark, object.to_string().as_bytes());
        }
        let line = json!({ "type": kind_name(WatchEventKind::Bookmark), "object": object });
        Bytes::from(format!("{line}\n"))
    }
}
