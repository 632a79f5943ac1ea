//! A watch: its events, one after the other.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use crate::client::Refusal;
use crate::expect;
use crate::scope::Scope;

pub(crate) struct Events<'a> {
    scope: &'a Scope,
    path: String,
    body: Body,
    /// What has come of the next line.
    buffer: Vec<u8>,
}

pub(crate) struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, ...
    pub(crate) kind: String,
    pub(crate) object: Value,
}

impl<'a> Events<'a> {
    pub(crate) async fn open(scope: &'a Scope, path: &str) -> Result<Self> {
        scope.doing(&format!("opening the watch {path}"));
        let request = Request::get(path).body(Body::empty())?;
        let response = scope.client().send(request).await.with_context(|| path.to_owned())?;
        let code = response.status().as_u16();
        let body = response.into_body();
        if code != 200 {
            let text = body.collect().await.map_err(|err| anyhow!("{path}: {err}"))?.to_bytes();
            let status = serde_json::from_slice(&text).unwrap_or_default();
            return Err(Refusal { call: format!("GET {path}"), code, status }.into());
        }
        Ok(Self { scope, path: path.to_owned(), body, buffer: Vec::new() })
    }

    pub(crate) async fn next(&mut self) -> Result<Event> {
        self.scope.doing(&format!("waiting for an event of {}", self.path));
        loop {
            if let Some(end) = self.buffer.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line)?;
                let kind = event["type"].as_str().unwrap_or_default().to_owned();
                if kind != "BOOKMARK" {
                    return Ok(Event { kind, object: event["object"].take() });
                }
                continue;
            }
            let Some(frame) = self.body.frame().await else {
                bail!("the watch {} ended", self.path);
            };
            let frame = frame.map_err(|err| anyhow!("the watch {}: {err}", self.path))?;
            self.buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |it| it));
        }
    }

    /// The next event is this one.
    pub(crate) async fn expect(&mut self, kind: &str, object: &Value) -> Result<Value> {
        let event = self.next().await?;
        let what = || format!("the next event of {}", self.path);
        ensure!(
            event.kind == kind,
            "{}: expected {kind}, saw {} {}",
            what(),
            event.kind,
            event.object
        );
        expect::shows(&event.object, object).with_context(what)?;
        Ok(event.object)
    }

    /// One of the next events is this one; until then there may be others, of these kinds alone.
    pub(crate) async fn find(
        &mut self,
        kind: &str,
        object: &Value,
        others: &[&str],
    ) -> Result<Value> {
        loop {
            let event = self.next().await?;
            if event.kind == kind && expect::shows(&event.object, object).is_ok() {
                return Ok(event.object);
            }
            let is_fine = others.contains(&event.kind.as_str());
            let looked_for = format!("{kind} {object}");
            let saw = format!("{} {}", event.kind, event.object);
            ensure!(is_fine, "{}: looking for {looked_for}, saw {saw}", self.path);
        }
    }
}
