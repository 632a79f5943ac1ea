//! Informers over a scripted server: each request takes the next line of the script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::core::config_map::ConfigMap;
use api::object::meta_of;
use api::{Meta, Resource as _, Stored};
use apimachinery::{ApiError, GroupVersionResource, ObjectKey, Reason};
use bytes::Bytes;
use client::{
    Client, Discovered, List, Reply, Request, Transport, WatchEvent, WatchEventKind, WatchStream,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use lifecycle::Tasks;
use stdx::World;

use crate::{EventHandler, Factory, Selection};

/// The answer to one request.
enum Answer {
    Refuse(Reason),
    /// Items as `name@version`, the list's version, and the token of the next page.
    Page(&'static [&'static str], u64, Option<&'static str>),
    /// `+a@1` added, `~a@2` modified, `-a@3` deleted, `bookmark@4`, `end@5` the end of the initial
    /// events, `expired` an error, `open` no end; else the stream closes after the last.
    Watch(&'static [&'static str]),
    /// As `Watch`, each event after a pause.
    Slow(Duration, &'static [&'static str]),
}

struct Server {
    script: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<String>>,
}

fn stored(text: &str) -> Arc<Stored> {
    let (name, version) = text.split_once('@').unwrap();
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": "default", "name": name, "resourceVersion": version,
            "managedFields": [{"manager": "test", "operation": "Update"}],
        },
    });
    let bytes = Bytes::from(json.to_string());
    let object = ConfigMap::decode(&bytes).unwrap();
    Arc::new(Stored::new(meta_of(object.metadata(), Vec::new()), bytes))
}

fn event(text: &str) -> Result<WatchEvent, ApiError> {
    use WatchEventKind::{Added, Bookmark, Deleted, Modified};
    if text == "expired" {
        return Err(ApiError::expired("too old resource version"));
    }
    if text == "broken" {
        return Err(ApiError::new(Reason::InternalError, "a storage feature is disabled"));
    }
    let (kind, object) = match text.as_bytes()[0] {
        b'+' => (Added, &text[1..]),
        b'~' => (Modified, &text[1..]),
        b'-' => (Deleted, &text[1..]),
        _ => (Bookmark, text),
    };
    Ok(WatchEvent { kind, object: stored(object), is_initial_end: text.starts_with("end@") })
}

fn events(texts: &'static [&'static str], pause: Duration) -> WatchStream {
    let is_open = texts.last() == Some(&"open");
    let n_events = texts.len() - usize::from(is_open);
    let events = stream::iter(&texts[..n_events]).then(move |it| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        event(it)
    });
    if is_open { events.chain(stream::pending()).boxed() } else { events.boxed() }
}

impl Server {
    fn answer(&self, request: &Request) -> Answer {
        let options = &request.list;
        let or_dash = |it: &Option<String>| it.clone().unwrap_or_else(|| "-".to_owned());
        let asked = format!(
            "{}{}{} rv={}{}{}{}",
            request.verb.name(),
            request.namespace.as_ref().map(|it| format!(" in {it}")).unwrap_or_default(),
            options.field_selector.as_ref().map(|it| format!(" where {it}")).unwrap_or_default(),
            or_dash(&options.resource_version),
            if options.send_initial_events == Some(true) { " initial" } else { "" },
            options.limit.map(|it| format!(" limit={it}")).unwrap_or_default(),
            options.continue_token.as_ref().map(|it| format!(" from={it}")).unwrap_or_default(),
        );
        self.asked.lock().unwrap().push(asked);
        self.script.lock().unwrap().pop_front().unwrap_or(Answer::Watch(&["open"]))
    }
}

impl Transport for Server {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        let reply = match self.answer(&request) {
            Answer::Page(items, version, next) => Ok(Reply::List(List {
                items: items.iter().map(|it| stored(it)).collect(),
                resource_version: version.to_string(),
                continue_token: next.map(str::to_owned),
                remaining: None,
            })),
            Answer::Refuse(reason) => Err(ApiError::new(reason, "refused")),
            Answer::Watch(_) | Answer::Slow(..) => panic!("the script expects a watch"),
        };
        async { reply }.boxed()
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let reply = match self.answer(&request) {
            Answer::Watch(texts) => Ok(events(texts, Duration::ZERO)),
            Answer::Slow(pause, texts) => Ok(events(texts, pause)),
            Answer::Refuse(reason) => Err(ApiError::new(reason, "refused")),
            Answer::Page(..) => panic!("the script expects a list"),
        };
        async { reply }.boxed()
    }

    fn get_path(&self, _path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async { Err(ApiError::no_such_resource()) }.boxed()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

/// Writes down what a handler hears.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

fn text(object: &ConfigMap) -> String {
    let meta = object.metadata();
    assert_eq!(meta.managed_fields, None);
    format!("{}@{}", meta.name.as_deref().unwrap(), meta.resource_version.as_deref().unwrap())
}

impl EventHandler<ConfigMap> for Ear {
    fn on_add(&self, object: &Arc<ConfigMap>, is_initial: bool) {
        let sign = if is_initial { "initial" } else { "add" };
        self.0.lock().unwrap().push(format!("{sign} {}", text(object)));
    }

    fn on_update(&self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        self.0.lock().unwrap().push(format!("update {} {}", text(old), text(new)));
    }

    fn on_delete(&self, last: &Arc<ConfigMap>) {
        self.0.lock().unwrap().push(format!("delete {}", text(last)));
    }
}

impl EventHandler<Meta> for Ear {
    fn on_add(&self, object: &Arc<Meta>, _is_initial: bool) {
        self.0.lock().unwrap().push(format!("add {}", object.key));
    }

    fn on_update(&self, _old: &Arc<Meta>, new: &Arc<Meta>) {
        self.0.lock().unwrap().push(format!("update {}", new.key));
    }

    fn on_delete(&self, last: &Arc<Meta>) {
        self.0.lock().unwrap().push(format!("delete {}", last.key));
    }
}

struct Setup {
    server: Arc<Server>,
    factory: Arc<Factory>,
    tasks: Tasks,
    ear: Arc<Ear>,
}

fn setup(script: Vec<Answer>) -> Setup {
    let server = Arc::new(Server { script: Mutex::new(script.into()), asked: Mutex::default() });
    let tasks = Tasks::new();
    let client = Client::new(server.clone(), "test");
    let factory = Factory::new(client, World::simulated(1), &tasks);
    Setup { server, factory, tasks, ear: Arc::default() }
}

async fn check(script: Vec<Answer>, heard: &[&str], asked: &[&str]) {
    let Setup { server, factory, tasks, ear } = setup(script);
    let informer = factory.informer::<ConfigMap>();
    informer.add_event_handler(ear.clone());
    factory.start();
    factory.wait_for_sync().await;
    assert!(informer.has_synced());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*ear.0.lock().unwrap(), heard);
    assert_eq!(*server.asked.lock().unwrap(), asked);
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_goes_on_as_the_watch() {
    check(
        vec![Answer::Watch(&["+a@1", "+b@2", "end@5", "~a@6", "+c@7", "-b@8", "open"])],
        &["initial a@1", "initial b@2", "update a@1 a@6", "add c@7", "delete b@8"],
        &["watch rv=- initial"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streamed_lists_is_listed_in_pages() {
    check(
        vec![
            Answer::Refuse(Reason::Invalid),
            Answer::Page(&["a@1"], 4, Some("more")),
            Answer::Page(&["b@2"], 4, None),
            Answer::Watch(&["~b@5", "open"]),
        ],
        &["initial a@1", "initial b@2", "update b@2 b@5"],
        &[
            "watch rv=- initial",
            "list rv=- limit=500",
            "list rv=- limit=500 from=more",
            "watch rv=4",
        ],
    )
    .await;
}

/// Upstream's server over an etcd before 3.4.25 opens the stream and says there that it cannot.
#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_off_a_streamed_list_is_listed_in_pages() {
    check(
        vec![
            Answer::Watch(&["+a@1", "broken"]),
            Answer::Page(&["b@2"], 4, None),
            Answer::Watch(&["~b@5", "open"]),
        ],
        &["initial b@2", "update b@2 b@5"],
        &["watch rv=- initial", "list rv=- limit=500", "watch rv=4"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_watch_is_resumed_from_the_last_version_and_repeats_are_dropped() {
    check(
        vec![
            Answer::Watch(&["+a@1", "end@5", "~a@6", "bookmark@9"]),
            Answer::Watch(&["~a@6", "+b@10", "open"]),
        ],
        &["initial a@1", "update a@1 a@6", "add b@10"],
        &["watch rv=- initial", "watch rv=9"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_an_expired_version_the_new_list_is_delivered_as_differences() {
    check(
        vec![
            Answer::Watch(&["+a@1", "+b@2", "+c@3", "end@5", "expired"]),
            Answer::Watch(&["+a@1", "+b@7", "+d@8", "end@9", "open"]),
        ],
        &["initial a@1", "initial b@2", "initial c@3", "update b@2 b@7", "add d@8", "delete c@3"],
        &["watch rv=- initial", "watch rv=- initial"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_resumed_without_a_new_list() {
    check(
        vec![
            Answer::Watch(&["+a@1", "end@5", "~a@6"]),
            Answer::Refuse(Reason::ServiceUnavailable),
            Answer::Refuse(Reason::TooManyRequests),
            Answer::Watch(&["-a@7", "open"]),
        ],
        &["initial a@1", "update a@1 a@6", "delete a@7"],
        &["watch rv=- initial", "watch rv=6", "watch rv=6", "watch rv=6"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_first_list_is_not_delivered() {
    check(
        vec![Answer::Watch(&["+a@1", "+b@2"]), Answer::Watch(&["+b@2", "end@5", "open"])],
        &["initial b@2"],
        &["watch rv=- initial", "watch rv=- initial"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_at_once_is_asked_ever_more_seldom() {
    let mut script = vec![Answer::Watch(&["end@5"])];
    script.extend((0..100).map(|_| Answer::Watch(&[])));
    let Setup { server, factory, tasks, .. } = setup(script);
    factory.informer::<ConfigMap>();
    factory.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let n_asked = server.asked.lock().unwrap().len();
    assert!((4..=8).contains(&n_asked), "{n_asked} requests in a minute");
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_starts_with_what_is_there_and_misses_nothing() {
    let pause = Duration::from_secs(10);
    let Setup { factory, tasks, ear, .. } =
        setup(vec![Answer::Slow(pause, &["+a@1", "end@5", "~a@6", "+b@7", "open"])]);
    let informer = factory.informer::<ConfigMap>();
    factory.start();
    tokio::time::sleep(Duration::from_secs(35)).await;
    informer.add_event_handler(ear.clone());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*ear.0.lock().unwrap(), ["initial a@6", "add b@7"]);
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_resync_repeats_objects_to_its_own_handler_alone() {
    let Setup { factory, tasks, ear, .. } = setup(vec![Answer::Watch(&["+a@1", "end@5", "open"])]);
    let other = Arc::new(Ear::default());
    let informer = factory.informer::<ConfigMap>();
    informer.add_event_handler_with_resync(ear.clone(), Duration::from_secs(25));
    informer.add_event_handler(other.clone());
    factory.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*ear.0.lock().unwrap(), ["initial a@1", "update a@1 a@1", "update a@1 a@1"]);
    assert_eq!(*other.0.lock().unwrap(), ["initial a@1"]);
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_kind_is_watched_once_and_read_through_indexes() {
    let Setup { server, factory, tasks, .. } =
        setup(vec![Answer::Watch(&["+a@1", "+b@2", "end@5", "open"])]);
    let first = factory.informer::<ConfigMap>();
    first.add_index("name", |it| it.metadata.name.clone().into_iter().collect());
    factory.start();
    let second = factory.informer::<ConfigMap>();
    assert!(Arc::ptr_eq(&first, &second));
    factory.wait_for_sync().await;
    let indexer = second.indexer();
    assert_eq!(indexer.len(), 2);
    assert_eq!(text(&indexer.by_index("name", "b")[0]), "b@2");
    assert_eq!(text(&indexer.get(&ObjectKey::new("default", "a")).unwrap()), "a@1");
    assert_eq!(server.asked.lock().unwrap().len(), 1);
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_metadata_informer_stops_and_can_be_made_anew() {
    let Setup { server, factory, tasks, ear } =
        setup(vec![Answer::Watch(&["+a@1", "end@5", "open"])]);
    factory.start();
    let resource = GroupVersionResource::new("example.com", "v1", "things");
    let informer = factory.metadata(&resource, || {});
    informer.add_event_handler(ear.clone());
    informer.wait_for_sync().await;
    assert_eq!(*ear.0.lock().unwrap(), ["add default/a"]);
    assert_eq!(informer.list().len(), 1);
    factory.forget_metadata(&resource);
    tokio::task::yield_now().await;
    assert_eq!(tasks.names(), Vec::<String>::new());
    assert!(!Arc::ptr_eq(&informer, &factory.metadata(&resource, || {})));
    tokio::task::yield_now().await;
    assert_eq!(server.asked.lock().unwrap().len(), 2);
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_the_server_does_not_have_is_told_of_each_time() {
    let refusals = (0..2).map(|_| Answer::Refuse(Reason::NotFound));
    let other = Answer::Refuse(Reason::InternalError);
    let Setup { server, factory, tasks, .. } = setup(refusals.chain([other]).collect());
    factory.start();
    let resource = GroupVersionResource::new("example.com", "v1", "things");
    let missing = Arc::new(Mutex::new(0));
    let counted = missing.clone();
    factory.metadata(&resource, move || *counted.lock().unwrap() += 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*missing.lock().unwrap(), 2);
    assert_eq!(server.asked.lock().unwrap().len(), 4);
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_selection_is_asked_for_in_lists_and_watches_and_can_be_forgotten() {
    let Setup { server, factory, tasks, .. } = setup(vec![
        Answer::Refuse(Reason::Invalid),
        Answer::Page(&["a@1"], 5, None),
        Answer::Watch(&["open"]),
    ]);
    factory.start();
    let selection =
        Selection { namespace: "default".to_owned(), field_selector: "metadata.name=a".to_owned() };
    let informer = factory.informer_of::<ConfigMap>(selection.clone());
    assert!(Arc::ptr_eq(&informer, &factory.informer_of::<ConfigMap>(selection.clone())));
    informer.wait_for_sync().await;
    tokio::task::yield_now().await;
    let scope = "in default where metadata.name=a";
    assert_eq!(
        *server.asked.lock().unwrap(),
        [
            format!("watch {scope} rv=- initial"),
            format!("list {scope} rv=- limit=500"),
            format!("watch {scope} rv=5"),
        ]
    );
    factory.forget::<ConfigMap>(&selection);
    tokio::task::yield_now().await;
    assert_eq!(tasks.names(), Vec::<String>::new());
    tasks.shutdown(Duration::from_secs(1)).await.unwrap();
}
