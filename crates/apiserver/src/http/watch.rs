//! A watch as a stream of JSON lines, or of protobuf frames. Plain lines and frames are made once
//! per event and shared by all watchers.

use std::sync::Arc;

use api::{Stored, protobuf};
use apimachinery::{ApiError, GroupVersionResource, User};
use authn::Component;
use bytes::{Bytes, BytesMut};
use client::{ListOptions, Verb, WatchEventKind, WriteOptions};
use http::request::Parts as Head;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio_websockets::Message;

use super::negotiate::{Form, Media, Shape};
use super::respond::{self, Wish};
use super::table::Include;
use super::websocket::{self, Accepted};
use super::{Body, status, table};
use crate::cache::{frame, protobuf_frame, protobuf_frame_of};
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
    let (form, include, now) = (Form::JSON, Include::Metadata, core.world.clock.now());
    let wish = Wish { form, include, accepts_gzip: false, now };
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
    let media_type = stream_type(wish.form);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The same, with a message for each event. A refusal of the handshake is an answer, too.
pub(super) fn respond_over_websocket(
    core: &Core,
    watching: Watching,
    wish: Wish,
    head: Head,
    recording: Option<Recording>,
) -> Response<Body> {
    let Accepted { mut response, connection } = match websocket::accept_watch(head) {
        Ok(accepted) => accepted,
        Err(refusal) => return *refusal,
    };
    let media_type = HeaderValue::from_static(stream_type(wish.form));
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    let lines = Lines { watching, wish, has_columns: false, _recording: recording };
    let messages = futures_util::stream::unfold(lines, move |mut lines| async move {
        let event = lines.next_one().await?;
        let message = match wish.form.media {
            // A message has its length already.
            Media::Protobuf => Message::binary(event.slice(protobuf::LENGTH_SIZE..)),
            Media::Json | Media::Yaml => {
                Message::text(String::from_utf8_lossy(&event).into_owned())
            }
        };
        Some((message, lines))
    });
    core.tasks.spawn("watch-over-websocket", |shutdown| {
        websocket::send_all(connection, messages, shutdown)
    });
    response
}

fn stream_type(form: Form) -> &'static str {
    match form.media {
        Media::Protobuf => protobuf::MEDIA_TYPE_WATCH,
        Media::Json | Media::Yaml => "application/json",
    }
}

/// What is made of an object for its watcher, in a frame.
fn metadata_frame(kind: WatchEventKind, object: &[u8], form: Form) -> Bytes {
    if form.media != Media::Protobuf {
        return frame(kind, table::metadata(object, form.api_version).to_string().as_bytes());
    }
    let encoded = respond::protobuf_metadata(object, form.api_version);
    protobuf_frame_of(kind, encoded)
}

impl Lines {
    /// One event.
    async fn next_one(&mut self) -> Option<Bytes> {
        Some(match self.watching.next().await? {
            Ok(item) => self.line(&item),
            Err(error) => {
                let object = status::error_object(&error);
                if self.wish.form.media == Media::Protobuf {
                    let status = status::to_protobuf(&object);
                    return Some(protobuf::encode_event("ERROR", &status).into());
                }
                [b"{\"type\":\"ERROR\",\"object\":", &object[..], b"}\n"].concat().into()
            }
        })
    }

    /// Whatever there is.
    async fn next(&mut self) -> Option<Bytes> {
        let first = self.next_one().await?;
        let mut chunk: Option<BytesMut> = None;
        while chunk.as_ref().is_none_or(|it| it.len() < CHUNK_MAX) {
            let Some(item) = self.watching.next_ready() else { break };
            let line = self.line(&item);
            chunk.get_or_insert_with(|| BytesMut::from(&first[..])).extend_from_slice(&line);
        }
        Some(chunk.map_or(first, BytesMut::freeze))
    }

    fn line(&mut self, item: &WatchItem) -> Bytes {
        let form = self.wish.form;
        let (kind, object) = match item {
            WatchItem::Object(kind, object) => (*kind, object),
            WatchItem::Bookmark { revision, is_initial_end } => {
                return self.bookmark(*revision, *is_initial_end);
            }
            WatchItem::Event(event) => match (form.shape, form.media) {
                (Shape::Plain | Shape::Discovery, Media::Protobuf) => {
                    return event.protobuf_frame();
                }
                (Shape::Plain | Shape::Discovery, _) => return event.frame(),
                (Shape::Metadata | Shape::MetadataList, _) if form.is_latest() => {
                    let is_protobuf = form.media == Media::Protobuf;
                    return event.metadata_frame(is_protobuf, |it| {
                        metadata_frame(event.kind, &it.bytes, form)
                    });
                }
                (Shape::Metadata | Shape::MetadataList | Shape::Table, _) => {
                    (event.kind, event.object())
                }
            },
        };
        match (form.shape, form.media) {
            (Shape::Plain | Shape::Discovery, Media::Protobuf) => {
                protobuf_frame(kind, &object.bytes)
            }
            (Shape::Plain | Shape::Discovery, _) => frame(kind, &object.bytes),
            (Shape::Metadata | Shape::MetadataList, _) => metadata_frame(kind, &object.bytes, form),
            (Shape::Table, _) => frame(kind, self.table(object).to_string().as_bytes()),
        }
    }

    fn table(&mut self, object: &Stored) -> Value {
        let meta = json!({ "resourceVersion": object.meta.resource_version.to_string() });
        let kind = self.watching.kind.as_ref();
        let mut table = table::render(kind, &[object], meta, self.wish);
        if std::mem::replace(&mut self.has_columns, true)
            && let Some(columns) = table.get_mut("columnDefinitions")
        {
            *columns = Value::Null;
        }
        table
    }

    fn bookmark(&self, revision: u64, is_initial_end: bool) -> Bytes {
        let names = self.watching.kind.names();
        let mut meta = json!({ "resourceVersion": revision.to_string() });
        if is_initial_end {
            meta["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let form = self.wish.form;
        let partial = json!({
            "kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": meta,
        });
        let object = match form.shape {
            Shape::Plain | Shape::Discovery => {
                json!({ "kind": names.kind, "apiVersion": names.api_version(), "metadata": meta })
            }
            Shape::Metadata | Shape::MetadataList => {
                return metadata_frame(
                    WatchEventKind::Bookmark,
                    partial.to_string().as_bytes(),
                    form,
                );
            }
            Shape::Table => json!({
                "kind": "Table", "apiVersion": form.api_version,
                "metadata": { "resourceVersion": revision.to_string() },
                "columnDefinitions": null,
                "rows": [{ "cells": [], "object": partial }],
            }),
        };
        let object = object.to_string();
        match form.media {
            Media::Protobuf => protobuf_frame(WatchEventKind::Bookmark, object.as_bytes()),
            Media::Json | Media::Yaml => frame(WatchEventKind::Bookmark, object.as_bytes()),
        }
    }
}
