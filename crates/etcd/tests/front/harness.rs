//! A front of its own for each test, and short ways to call it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd::front::{self, Config};
use etcd::wire::channel::{CallError, Channel, Endpoint, Pending, Requests, Responses, Timing};
use etcd::wire::messages::*;
use etcd::wire::{Code, methods};
use kvstore::Store;
use kvstore::embedded::Embedded;
use kvstore::memory::Memory;
use lifecycle::Tasks;

/// How long anything that must happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub(crate) channel: Channel,
    pub(crate) port: u16,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: Tasks,
    _dir: Option<tempfile::TempDir>,
}

pub(crate) fn plain(port: u16) -> Endpoint {
    Endpoint { host: "127.0.0.1".to_owned(), port, tls: None }
}

pub(crate) fn config() -> Config {
    Config::new(vec!["http://127.0.0.1:0".to_owned()], "seed")
}

impl Server {
    pub(crate) async fn memory() -> Self {
        Self::over(Arc::new(Memory::new()), config()).await
    }

    pub(crate) async fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Embedded::open(dir.path(), kvstore::embedded::Options::default()).unwrap();
        let mut server = Self::over(store, config()).await;
        server._dir = Some(dir);
        server
    }

    pub(crate) async fn over(store: Arc<dyn Store>, config: Config) -> Self {
        let tasks = Tasks::new();
        let serving = front::serve(store.clone(), config, &tasks).await.unwrap();
        let port = serving.addresses[0].port();
        let channel = Channel::connect(&plain(port), Timing::default(), &tasks).await.unwrap();
        Self { channel, port, store, tasks, _dir: None }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn put(&self, key: &str, value: &str) -> i64 {
        put(&self.channel, key, value).await
    }

    pub(crate) async fn watch(&self, request: WatchCreateRequest) -> WatchStream {
        WatchStream::open(&self.channel, request).await
    }

    pub(crate) async fn stop(self) {
        self.tasks.shutdown(PATIENCE).await.unwrap();
    }
}

pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) async fn put(channel: &Channel, key: &str, value: &str) -> i64 {
    let request = PutRequest { key: bytes(key), value: bytes(value), ..Default::default() };
    let response = channel.unary(methods::PUT, &request).await.unwrap();
    response.header.unwrap().revision
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, CallError>) -> (Code, String) {
    match result {
        Err(CallError::Status(status)) => (status.code, status.message),
        other => panic!("expected a status, not {other:?}"),
    }
}

pub(crate) fn prefix(prefix: &str) -> (Bytes, Bytes) {
    let range = kvstore::KeyRange::prefix(prefix.as_bytes());
    (range.start, range.end)
}

pub(crate) fn watch_of(prefix_: &str, start_revision: i64) -> WatchCreateRequest {
    let (key, range_end) = prefix(prefix_);
    WatchCreateRequest { key, range_end, start_revision, ..Default::default() }
}

/// An open watch stream, whose responses can be written down.
pub(crate) struct WatchStream {
    pub(crate) requests: Requests<WatchRequest>,
    pub(crate) responses: Responses<WatchResponse>,
}

pub(crate) fn create(request: WatchCreateRequest) -> WatchRequest {
    WatchRequest { request_union: Some(WatchRequestUnion::Create(request)) }
}

impl WatchStream {
    pub(crate) async fn open(channel: &Channel, request: WatchCreateRequest) -> Self {
        let opened = channel.open(methods::WATCH, &create(request)).await.unwrap();
        let (requests, pending): (_, Pending<WatchResponse>) = opened;
        Self { requests, responses: pending.answers().await.unwrap() }
    }

    pub(crate) async fn create(&mut self, request: WatchCreateRequest) {
        self.requests.send(&create(request)).await.unwrap();
    }

    pub(crate) async fn cancel(&mut self, watch_id: i64) {
        let request = WatchRequestUnion::Cancel(WatchCancelRequest { watch_id });
        self.requests.send(&WatchRequest { request_union: Some(request) }).await.unwrap();
    }

    pub(crate) async fn ask_progress(&mut self) {
        let request = WatchRequestUnion::Progress(WatchProgressRequest {});
        self.requests.send(&WatchRequest { request_union: Some(request) }).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> WatchResponse {
        let next = tokio::time::timeout(PATIENCE, self.responses.next()).await;
        next.expect("a response in time").unwrap().expect("the stream goes on")
    }

    /// The next response as text.
    pub(crate) async fn line(&mut self) -> String {
        render(&self.next().await)
    }
}

/// `#0 @5 created`, `#0 @6 PUT a=1 (was 0)`, `#-1 @7`.
pub(crate) fn render(response: &WatchResponse) -> String {
    let mut text = format!("#{} @{}", response.watch_id, response.header.unwrap().revision);
    for (is_set, word) in [
        (response.created, "created"),
        (response.canceled, "canceled"),
        (response.fragment, "fragment"),
    ] {
        if is_set {
            text.push(' ');
            text.push_str(word);
        }
    }
    if response.compact_revision != 0 {
        text.push_str(&format!(" compacted {}", response.compact_revision));
    }
    for event in &response.events {
        text.push(' ');
        text.push_str(&render_event(event));
    }
    text
}

fn render_event(event: &Event) -> String {
    let kv = event.kv.as_ref().unwrap();
    let key = String::from_utf8_lossy(&kv.key);
    let mut text = match event.kind() {
        EventType::Put => format!("PUT {key}={}", String::from_utf8_lossy(&kv.value)),
        EventType::Delete => format!("DELETE {key}"),
    };
    if let Some(previous) = &event.prev_kv {
        text.push_str(&format!(" (was {})", String::from_utf8_lossy(&previous.value)));
    }
    text
}

/// A program that the suite unpacks, or that the machine has. Says loudly when it is missing.
pub(crate) fn program(variable: &str, name: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    let found = given.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|it| it.join(name)).find(|it| it.exists())
    });
    if found.is_none() {
        eprintln!("SKIPPED: there is no {name}, and {variable} does not say where it is");
    }
    found
}
