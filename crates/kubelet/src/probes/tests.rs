//! Probes of containers on the fake node under paused time, and of real sockets on loopback.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use lifecycle::Tasks;
use node_api::containers::ContainerConfig;
use node_api::fake::{Exec, Node};
use node_api::{ContainerId, Containers, ImageId, PodRef, PodUid, Sandboxes as _};
use serde_json::{Value, json};
use stdx::World;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use super::action::{self, Outcome};
use super::{Failed, Health, Probes, Target};

/// A node that runs one container.
pub(crate) async fn running(name: &str) -> (Node, ContainerId) {
    let node = Node::new(&World::simulated(1));
    let pod =
        PodRef { namespace: "shop".to_owned(), name: "web".to_owned(), uid: PodUid::new("u1") };
    let sandbox = node_api::sandboxes::SandboxConfig {
        cgroup: "kubepods/podu1".to_owned(),
        ..node_api::fake::plain_sandbox(pod)
    };
    let sandbox = node_api::Sandboxes::create(&node, sandbox).await.unwrap().id;
    let config = ContainerConfig {
        log_path: "/log".into(),
        ..node_api::fake::plain_container(name, ImageId::new("sha256:1"))
    };
    let id = Containers::create(&node, &sandbox, config).await.unwrap();
    node.start(&id).await.unwrap();
    let _ = node.events();
    (node, id)
}

/// A container on the fake node whose probes run a command that answers with `results`, one letter
/// each: `s`uccess, `f`ailure, `e`rror. The last one repeats.
struct Bench {
    tasks: Tasks,
    health: watch::Receiver<Health>,
    events: Arc<Mutex<Vec<String>>>,
    start: Instant,
}

async fn bench(container: Value, results: &[(&str, &str)], was: Option<Health>) -> Bench {
    let (node, id) = running("app").await;
    let results: Vec<(String, Mutex<Vec<char>>)> = results
        .iter()
        .map(|(name, results)| ((*name).to_owned(), Mutex::new(results.chars().rev().collect())))
        .collect();
    node.on_exec("app", move |command| {
        let script = results.iter().find(|(name, _)| *name == command[0]).map(|(_, it)| it);
        let mut script = script.unwrap().lock().unwrap();
        let letter = if script.len() > 1 { script.pop() } else { script.last().copied() };
        match letter {
            Some('s') => Exec::exits(0),
            Some('t') => Exec::forever(),
            _ => Exec::exits(1).stderr("bad"),
        }
    });
    let world = World::simulated(1);
    let tasks = Tasks::new();
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = events.clone();
    let start = Instant::now();
    let tell: super::Tell = Arc::new(move |_, reason, message| {
        let at = start.elapsed().as_secs();
        told.lock().unwrap().push(format!("{at}s {reason}: {message}"));
    });
    let probes = Probes::telling(&tasks, Arc::new(node), tell, &world);
    let mut container = container;
    container["name"] = json!("app");
    let health = probes.add(Target {
        pod: Arc::default(),
        container: serde_json::from_value(container).unwrap(),
        id,
        address: None,
        started: world.clock.now(),
        was,
    });
    Bench { tasks, health, events, start }
}

impl Bench {
    /// Every change of health for a while, as `7s started ready`.
    async fn history(mut self, time: u64) -> (Vec<String>, Vec<String>) {
        let mut history = Vec::new();
        let end = self.start + Duration::from_secs(time);
        loop {
            let health = *self.health.borrow_and_update();
            let mut line = format!("{}s", self.start.elapsed().as_secs());
            for (is_so, word) in [(health.is_started, " started"), (health.is_ready, " ready")] {
                line.push_str(if is_so { word } else { "" });
            }
            if let Some(failed) = health.failed {
                line.push_str(&format!(" {failed:?} failed"));
            }
            history.push(line);
            tokio::select! {
                biased;
                changed = self.health.changed() => changed.unwrap(),
                () = tokio::time::sleep_until(end) => break,
            }
        }
        drop(self.health);
        self.tasks.shutdown(Duration::from_secs(1)).await.unwrap();
        let events = self.events.lock().unwrap().clone();
        (history, events)
    }
}

fn probe(name: &str, more: Value) -> Value {
    let mut probe = json!({"exec": {"command": [name]}, "periodSeconds": 10, "timeoutSeconds": 2});
    for (key, value) in more.as_object().unwrap() {
        probe[key] = value.clone();
    }
    probe
}

#[tokio::test(start_paused = true)]
async fn a_container_without_probes_is_well() {
    let (history, events) = bench(json!({}), &[], None).await.history(100).await;
    assert_eq!(history, ["0s started ready"]);
    assert_eq!(events, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_its_probe() {
    let container = json!({"readinessProbe":
        probe("r", json!({"initialDelaySeconds": 5, "failureThreshold": 2}))});
    let (history, events) = bench(container, &[("r", "fsfsffs")], None).await.history(100).await;
    assert_eq!(history, ["0s started", "15s started ready", "55s started", "65s started ready"]);
    let failed = "Unhealthy: Readiness probe failed: bad";
    let expected = [5, 25, 45, 55].map(|it| format!("{it}s {failed}"));
    assert_eq!(events, expected);
}

#[tokio::test(start_paused = true)]
async fn liveness_fails_once_and_for_all() {
    let container = json!({"livenessProbe": probe("l", json!({"failureThreshold": 3}))});
    let (history, events) = bench(container, &[("l", "sffsf")], None).await.history(100).await;
    assert_eq!(history, ["0s started ready", "60s started ready Liveness failed"]);
    assert_eq!(events.len(), 5);
    assert_eq!(events[4], "60s Unhealthy: Liveness probe failed: bad");
}

#[tokio::test(start_paused = true)]
async fn the_others_wait_for_startup() {
    let container = json!({
        "startupProbe": probe("s", json!({"periodSeconds": 7})),
        "livenessProbe": probe("l", json!({})),
        "readinessProbe": probe("r", json!({"initialDelaySeconds": 20})),
    });
    let results = [("s", "ffs"), ("l", "s"), ("r", "s")];
    let (history, events) = bench(container, &results, None).await.history(100).await;
    assert_eq!(history, ["0s", "14s started", "20s started ready"]);
    assert_eq!(events.len(), 2);
    assert_eq!(events[0], "0s Unhealthy: Startup probe failed: bad");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_start_is_killed() {
    let container = json!({
        "startupProbe": probe("s", json!({"failureThreshold": 2})),
        "livenessProbe": probe("l", json!({})),
    });
    let results = [("s", "f"), ("l", "f")];
    let (history, events) = bench(container, &results, None).await.history(100).await;
    assert_eq!(history, ["0s", "10s Startup failed"]);
    assert_eq!(events.len(), 2, "the liveness probe never ran: {events:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_commands_fail() {
    let container = json!({"livenessProbe": probe("l", json!({"failureThreshold": 1}))});
    let (history, events) = bench(container, &[("l", "t")], None).await.history(100).await;
    assert_eq!(history, ["0s started ready", "2s started ready Liveness failed"]);
    let expected =
        "2s Unhealthy: Liveness probe failed: command timed out: \"l\" timed out after 2s";
    assert_eq!(events, [expected]);
}

#[tokio::test(start_paused = true)]
async fn an_adopted_container_keeps_its_health() {
    let container = json!({
        "startupProbe": probe("s", json!({})),
        "readinessProbe": probe("r", json!({"failureThreshold": 1})),
    });
    let was = Health { is_started: true, is_ready: true, failed: None };
    let bench = bench(container, &[("s", "f"), ("r", "sf")], Some(was)).await;
    let (history, _) = bench.history(100).await;
    assert_eq!(history.len(), 2, "{history:?}");
    assert_eq!(history[0], "0s started ready");
    // Somewhere in the second period.
    let second: u64 = history[1].split('s').next().unwrap().parse().unwrap();
    assert!((10..20).contains(&second), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_who_looks_nobody_who_probes() {
    let bench = bench(json!({"livenessProbe": probe("l", json!({}))}), &[("l", "f")], None).await;
    drop(bench.health);
    bench.tasks.shutdown(Duration::from_secs(1)).await.unwrap();
    assert_eq!(*bench.events.lock().unwrap(), [""; 0]);
}

#[test]
fn kills_say_why() {
    let container: Container = serde_json::from_value(json!({
        "name": "app", "livenessProbe": {"terminationGracePeriodSeconds": 5},
    }))
    .unwrap();
    let message = "Container app failed liveness probe, will be restarted";
    assert_eq!(Failed::Liveness.kill_message("app"), message);
    assert_eq!(Failed::Liveness.grace_seconds(&container), Some(5));
    assert_eq!(Failed::Startup.grace_seconds(&container), None);
}

/// A server that answers each connection with one text, and keeps what it was asked.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own server")]
pub(crate) async fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = requests.clone();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut text = String::new();
            let mut buffer = [0; 1024];
            while !text.contains("\r\n\r\n") {
                match stream.read(&mut buffer).await {
                    Ok(n) if n > 0 => text.push_str(&String::from_utf8_lossy(&buffer[..n])),
                    _ => break,
                }
            }
            let answer = answer(&text);
            seen.lock().unwrap().push(text);
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Server { port, requests, task }
}

async fn look(probe: Value) -> Outcome {
    let (node, id) = running("app").await;
    let target = Target {
        pod: Arc::default(),
        container: serde_json::from_value(json!({
            "name": "app", "ports": [{"name": "closed", "containerPort": 1}],
        }))
        .unwrap(),
        id,
        address: Some("127.0.0.1".parse().unwrap()),
        started: World::system().clock.now(),
        was: None,
    };
    let containers: Arc<dyn Containers> = Arc::new(node);
    let probe: Probe = serde_json::from_value(probe).unwrap();
    action::run(&containers, &target, &probe, Duration::from_secs(20)).await
}

fn failure(text: impl Into<String>) -> Outcome {
    Outcome::Failure(text.into())
}

#[tokio::test]
async fn http_probes_read_the_status() {
    let server = serve(|request| {
        let path = request.split(' ').nth(1).unwrap();
        let status = path.trim_start_matches('/');
        format!("HTTP/1.1 {status} Some\r\nContent-Length: 4\r\n\r\nbody")
    })
    .await;
    let port = server.port;
    let get = |path: &str| json!({"httpGet": {"port": port, "path": path}});
    assert_eq!(look(get("/200")).await, Outcome::Success);
    assert_eq!(look(get("204")).await, Outcome::Success);
    assert_eq!(look(get("/404")).await, failure("HTTP probe failed with statuscode: 404"));
    assert_eq!(look(get("/500")).await, failure("HTTP probe failed with statuscode: 500"));
    let warning = "Probe terminated redirects, Response body: body";
    assert_eq!(look(get("/302")).await, Outcome::Warning(warning.to_owned()));
    let with_headers = json!({"httpGet": {"port": port, "path": "/200", "httpHeaders": [
        {"name": "Host", "value": "shop.example"}, {"name": "X-Own", "value": "1"}]}});
    assert_eq!(look(with_headers).await, Outcome::Success);
    let requests = server.requests.lock().unwrap().clone();
    let first = requests[0].to_lowercase();
    assert!(first.starts_with("get /200 http/1.1\r\n"), "{first}");
    for line in ["user-agent: kube-probe/1.36\r\n", "accept: */*\r\n", "connection: close\r\n"] {
        assert!(first.contains(line), "{first}");
    }
    assert!(first.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{first}");
    let last = requests.last().unwrap().to_lowercase();
    assert!(last.contains("host: shop.example\r\n") && last.contains("x-own: 1\r\n"), "{last}");
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host() {
    let server = serve(|request| {
        let to = |location: &str| {
            format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
        };
        match request.split(' ').nth(1).unwrap() {
            "/here" => to("/there"),
            "/away" => to("http://other.example/"),
            "/round" => to("/round"),
            _ => "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        }
    })
    .await;
    let port = server.port;
    let get = |path: &str| json!({"httpGet": {"port": port, "path": path}});
    assert_eq!(look(get("/here")).await, failure("HTTP probe failed with statuscode: 500"));
    assert!(matches!(look(get("/away")).await, Outcome::Warning(_)));
    let url = format!("http://127.0.0.1:{port}/round");
    assert_eq!(
        look(get("/round")).await,
        failure(format!("Get \"{url}\": stopped after 10 redirects"))
    );
}

#[tokio::test]
async fn what_cannot_be_reached_fails() {
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(look(json!({"tcpSocket": {"port": 1}})).await, failure(refused));
    assert_eq!(look(json!({"tcpSocket": {"port": "closed"}})).await, failure(refused));
    assert_eq!(
        look(json!({"httpGet": {"port": 1, "path": "/x"}})).await,
        failure(format!("Get \"http://127.0.0.1:1/x\": {refused}"))
    );
    assert_eq!(
        look(json!({"grpc": {"port": 1}})).await,
        failure(
            "timeout: failed to connect service \"127.0.0.1:1\" within 20s: context deadline exceeded"
        )
    );
    let unknown = |text: &str| Outcome::Unknown(text.to_owned());
    let nameless = json!({"tcpSocket": {"port": "none"}});
    assert_eq!(look(nameless).await, unknown("couldn't find port: none"));
    assert_eq!(look(json!({})).await, unknown("missing probe handler"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(look(json!({"tcpSocket": {"port": port}})).await, Outcome::Success);
}

/// A gRPC server that answers a health check with `state`, or with an error if there is none.
#[expect(clippy::disallowed_methods, reason = "a test's own server")]
async fn serve_grpc(state: Option<u8>) -> (u16, tokio::task::JoinHandle<()>) {
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::{Frame, Incoming};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = move |request: http::Request<Incoming>| async move {
        assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
        let asked = request.into_body().collect().await?.to_bytes();
        assert_eq!(&asked[..], b"\0\0\0\0\x06\x0a\x04shop");
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", if state.is_some() { "0" } else { "12" }.parse().unwrap());
        trailers.insert("grpc-message", "unknown service".parse().unwrap());
        let message = state.map(|it| Frame::data(bytes::Bytes::from(vec![0, 0, 0, 0, 2, 8, it])));
        let frames = message.into_iter().chain([Frame::trailers(trailers)]);
        let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, hyper::Error>)));
        Ok::<_, hyper::Error>(http::Response::new(body))
    };
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(answer);
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (port, task)
}

#[tokio::test]
async fn grpc_probes_read_the_state() {
    let check = async |state, expected: Outcome| {
        let (port, task) = serve_grpc(state).await;
        assert_eq!(look(json!({"grpc": {"port": port, "service": "shop"}})).await, expected);
        task.abort();
    };
    check(Some(1), Outcome::Success).await;
    check(Some(2), failure("service unhealthy (responded with \"NOT_SERVING\")")).await;
    check(Some(9), failure("service unhealthy (responded with \"UNKNOWN\")")).await;
    let text = "error: this server does not implement the grpc health protocol \
                (grpc.health.v1.Health): unknown service";
    check(None, failure(text)).await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test's own server")]
async fn https_probes_take_any_certificate() {
    let world = World::system();
    let now = world.clock.now();
    let authority = authn::pki::Authority::create("test", now, &world.random).unwrap();
    let names = ["elsewhere.example"];
    let identity = authority.issue_server("elsewhere", &names, &[], now, &world.random).unwrap();
    let config = authn::pki::server_config(&identity, authority.certificate_pem()).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer).await;
        let answer = "HTTP/1.1 503 Not yet\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let probe = json!({"httpGet": {"port": port, "scheme": "HTTPS"}});
    assert_eq!(look(probe).await, failure("HTTP probe failed with statuscode: 503"));
    task.await.unwrap();
}
