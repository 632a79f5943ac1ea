//! Loads of watches: many streams of a few HTTP/2 connections, as clients have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::connect::{Connection, Target};
use crate::{Result, calls};

/// Upstream's bound of streams per connection is 250.
const STREAMS_MAX: usize = 200;
/// How long events may take to arrive.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Seen {
    events: AtomicUsize,
    changed: Notify,
}

impl Seen {
    async fn wait(&self, wanted: usize) -> Result<()> {
        let all = async {
            while self.events.load(Ordering::Relaxed) < wanted {
                let more = self.changed.notified();
                let _ = tokio::time::timeout(Duration::from_millis(20), more).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, all).await.map_err(|_| {
            let seen = self.events.load(Ordering::Relaxed);
            format!("{seen} of {wanted} events after {WAIT_MAX:?}").into()
        })
    }
}

pub(crate) async fn all(target: Arc<Target>, watchers: usize, events: usize) -> Result<Value> {
    let seen = open(&target, watchers, |_| String::new()).await?;
    say_open(watchers);
    deliver(&target, &seen, events, watchers * events, "any").await
}

pub(crate) async fn one(target: Arc<Target>, watchers: usize, events: usize) -> Result<Value> {
    let name = |it: usize| format!("&fieldSelector=metadata.name%3Dmine-{it}");
    let seen = open(&target, watchers, name).await?;
    say_open(watchers);
    deliver(&target, &seen, events, events, "mine-0").await
}

pub(crate) async fn idle(target: Arc<Target>, watchers: usize, seconds: usize) -> Result<Value> {
    let _seen = open(&target, watchers, |_| String::new()).await?;
    say_open(watchers);
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    Ok(json!({"watchers": watchers}))
}

/// For who measures what comes after.
fn say_open(watchers: usize) {
    println!("{}", json!({"open": watchers}));
}

/// Changes one object so often that `expected` events must arrive.
async fn deliver(
    target: &Target,
    seen: &Seen,
    events: usize,
    expected: usize,
    name: &str,
) -> Result<Value> {
    let mut connection = Connection::open(target).await?;
    let one = format!("{}/{name}", calls::path());
    connection.call(&target.request("DELETE", &one, b"")).await?;
    let before = seen.events.load(Ordering::Relaxed);
    let started = Instant::now();
    let create = target.request("POST", &calls::path(), &calls::config_map(name, 900));
    connection.call(&create).await?;
    for number in 1..events {
        let patch = json!({"data": {"number": number.to_string()}}).to_string();
        let request = target.request("PATCH", &one, patch.as_bytes());
        let request = String::from_utf8(request)?.replace(
            "content-type: application/json",
            "content-type: application/merge-patch+json",
        );
        let (code, _) = connection.call(request.as_bytes()).await?;
        if code != 200 {
            return Err(format!("a patch was answered with {code}").into());
        }
    }
    seen.wait(before + expected).await?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({"events": events, "deliveries": expected, "seconds": seconds}))
}

async fn open(
    target: &Arc<Target>,
    watchers: usize,
    query: impl Fn(usize) -> String,
) -> Result<Arc<Seen>> {
    let seen = Arc::new(Seen::default());
    // From now on: what is there already is not what is measured.
    let since = calls::revision(target).await?;
    let mut sender = None;
    for index in 0..watchers {
        if index % STREAMS_MAX == 0 {
            sender = Some(connect(target).await?);
        }
        let sender = sender.as_mut().ok_or("a connection was opened")?;
        let since = format!("watch=true&resourceVersion={since}");
        let uri = format!("https://{}{}?{since}{}", target.host, calls::path(), query(index));
        let mut request = Request::get(uri).header(header::ACCEPT, "application/json");
        if let Some(authorization) = target.authorization() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let response = sender.send_request(request.body(Empty::new())?).await?;
        if !response.status().is_success() {
            return Err(format!("a watch was answered with {}", response.status()).into());
        }
        tokio::spawn(count(response.into_body(), seen.clone()));
    }
    Ok(seen)
}

pub(crate) async fn connect(target: &Target) -> Result<SendRequest<Empty<Bytes>>> {
    let stream = TokioIo::new(target.dial(b"h2").await?);
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .handshake(stream)
        .await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Events are lines.
async fn count(mut body: Incoming, seen: Arc<Seen>) {
    while let Some(Ok(frame)) = body.frame().await {
        let Some(bytes) = frame.data_ref() else { continue };
        let lines = bytes.iter().filter(|it| **it == b'\n').count();
        seen.events.fetch_add(lines, Ordering::Relaxed);
        seen.changed.notify_one();
    }
}
