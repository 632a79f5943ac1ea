//! Parts of the API that another server serves, over a real connection to it.

mod extension;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::Resource;
use api::apiregistration::APIService;
use api::core::{ConfigMap, Service};
use api::discovery::EndpointSlice;
use apimachinery::GroupVersionResource;
use apiserver::{Config, Dialer, FrontProxy};
use authn::RequestHeaders;
use authn::pki::{Authority, Rotating, Trust};
use base64::Engine as _;
use bytes::Bytes;
use client::{DeleteOptions, ListOptions, WatchEventKind};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use stdx::World;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use self::extension::{Extension, GROUP, Mood, flunder};
use crate::harness;
use crate::harness::wire::{ADMIN, Site};

const LIST: &str = "/apis/wardle.example.com/v1/namespaces/default/flunders";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The address that pods are said to have; where the extension listens is the dialer's affair.
const POD: &str = "10.244.0.7";

struct Cluster {
    site: Site,
    extension: Extension,
    proxies: Authority,
    is_cut: Arc<AtomicBool>,
}

fn decode<T: Resource>(value: &Value) -> T {
    T::decode(value.to_string().as_bytes()).expect("an object")
}

fn configure(world: &World, clients: &Authority, proxies: &Authority) -> Config {
    let now = world.clock.now();
    let identity = proxies.issue_client("front-proxy-client", &[], now, &world.random);
    let (client_ca, proxy_ca) = (clients.certificate_pem(), proxies.certificate_pem());
    let front_proxy = FrontProxy {
        identity: Some(Rotating::new(&identity.expect("a certificate")).expect("an identity")),
        headers: Some(RequestHeaders::default()),
        trust: Some(Trust::new(client_ca, Some(proxy_ca)).expect("authorities")),
        client_ca_pem: client_ca.to_owned(),
        proxy_ca_pem: proxy_ca.to_owned(),
    };
    Config { front_proxy, ..harness::everything() }
}

impl Cluster {
    async fn start() -> Self {
        let world = World::system();
        let tasks = lifecycle::Tasks::new();
        let now = world.clock.now();
        let proxies = Authority::create("proxies", now, &world.random).expect("an authority");
        let extension = Extension::start(&world, &tasks, proxies.certificate_pem()).await;
        let is_cut = Arc::new(AtomicBool::new(false));
        let (at, cut) = (extension.address, is_cut.clone());
        let dialer = Dialer::new(move |address| {
            assert_eq!(address.to_string(), format!("{POD}:8443"));
            let is_cut = cut.load(Ordering::Relaxed);
            Box::pin(async move {
                match is_cut {
                    true => Err(std::io::ErrorKind::ConnectionRefused.into()),
                    false => tokio::net::TcpStream::connect(at).await,
                }
            })
        });
        let store = Arc::new(kvstore::memory::Memory::new());
        let site = Site::start_configured(store, Vec::new(), |world, clients| Config {
            dialer,
            ..configure(world, clients, &proxies)
        })
        .await;
        Self { site, extension, proxies, is_cut }
    }

    /// With everything that leads to the extension.
    async fn start_registered() -> Self {
        let cluster = Self::start().await;
        cluster.create_service().await;
        cluster.create_slice().await;
        cluster.register(GROUP, "v1").await;
        cluster.wait(GROUP, "v1", "True (Passed)").await;
        cluster
    }

    async fn create_service(&self) {
        let service = json!({
            "metadata": {"name": "ext", "namespace": "default"},
            "spec": {"ports": [{"name": "api", "port": 443, "targetPort": 8443}]},
        });
        let services = self.site.harness.client.api::<Service>();
        services.create(decode(&service)).await.expect("created");
    }

    async fn create_slice(&self) {
        let slice = json!({
            "metadata": {
                "name": "ext-1", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "ext"},
            },
            "addressType": "IPv4", "ports": [{"name": "api", "port": 8443}],
            "endpoints": [{"addresses": [POD]}],
        });
        let slices = self.site.harness.client.api::<EndpointSlice>();
        slices.create(decode(&slice)).await.expect("created");
    }

    async fn register(&self, group: &str, version: &str) {
        let bundle = base64::engine::general_purpose::STANDARD.encode(&self.extension.ca_pem);
        let service = json!({
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 17_790, "versionPriority": 15, "caBundle": bundle,
                "service": {"namespace": "default", "name": "ext", "port": 443},
            },
        });
        let services = self.site.harness.client.api::<APIService>();
        services.create(decode(&service)).await.expect("created");
    }

    async fn condition(&self, group: &str, version: &str) -> String {
        let services = self.site.harness.client.api::<APIService>();
        let service = services.get("", &format!("{version}.{group}")).await.expect("found");
        let conditions = service.status.as_ref().and_then(|it| it.conditions.as_ref());
        let condition = conditions.and_then(|it| it.first());
        condition.map_or_else(
            || "Unknown".to_owned(),
            |it| format!("{} ({})", it.status, it.reason.as_deref().unwrap_or_default()),
        )
    }

    async fn wait(&self, group: &str, version: &str, expected: &str) {
        while self.condition(group, version).await != expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn requests_are_passed_on_with_the_name_of_whoever_asks() {
    let cluster = Cluster::start_registered().await;
    let mut jane = cluster.site.connect(Some(("jane", &["system:masters"]))).await;
    let headers = [
        ("authorization", "Bearer secret"),
        ("x-remote-user", "root"),
        ("x-remote-group", "everything"),
        ("x-remote-extra-scopes", "all"),
        ("audit-id", "seven"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("content-type", "application/json"),
    ];
    let (head, body) =
        jane.send("POST", &format!("{LIST}?dryRun=All"), &headers, &flunder("two")).await;
    assert_eq!(head.status, 200);
    assert_eq!(head.headers["audit-id"], "seven");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["kind"], "FlunderList");
    let seen = cluster.extension.seen().pop().expect("a request");
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", LIST));
    assert_eq!(serde_json::from_slice::<Value>(&seen.body).expect("JSON"), flunder("two"));
    assert_eq!(seen.certificate.as_deref(), Some("front-proxy-client"));
    let all = |name: &str| -> Vec<&str> {
        seen.headers.get_all(name).iter().map(|it| it.to_str().unwrap()).collect()
    };
    assert_eq!(all("x-remote-user"), ["jane"]);
    assert_eq!(all("x-remote-group"), ["system:masters", "system:authenticated"]);
    assert!(all("x-remote-extra-scopes").is_empty());
    assert!(all("authorization").is_empty());
    assert!(all("x-hop").is_empty());
    assert_eq!(all("audit-id"), ["seven"]);
    let id = all("x-remote-extra-authentication.kubernetes.io%2fcredential-id");
    assert!(id[0].starts_with("X509SHA256="), "{id:?}");
}

#[tokio::test]
async fn who_may_not_is_refused_before_the_other_server_hears_of_it() {
    let cluster = Cluster::start_registered().await;
    for who in [Some(("jane", &[][..])), None] {
        let mut connection = cluster.site.connect(who).await;
        let (code, body) = connection.get(LIST, "application/json").await;
        assert_eq!(code, 403, "{body}");
        assert_eq!(body["reason"], "Forbidden");
    }
    assert!(cluster.extension.seen().is_empty());
}

#[tokio::test]
async fn discovery_and_openapi_show_what_others_serve() {
    let cluster = Cluster::start_registered().await;
    let mut admin = cluster.site.connect(ADMIN).await;
    let (_, list) = admin.get("/apis", AGGREGATED).await;
    let groups = list["items"].as_array().expect("groups");
    let names: Vec<&str> =
        groups.iter().filter_map(|it| it["metadata"]["name"].as_str()).take(3).collect();
    assert_eq!(names, ["apiregistration.k8s.io", "apps", GROUP]);
    let version = &groups[2]["versions"][0];
    assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
    assert_eq!(version["resources"][0]["shortNames"], json!(["fl"]));
    let (_, old) = admin.get("/apis", "application/json").await;
    assert_eq!(old["groups"][2]["preferredVersion"]["groupVersion"], "wardle.example.com/v1");
    let (code, group) = admin.get("/apis/wardle.example.com", "application/json").await;
    assert_eq!((code, &group["kind"]), (200, &json!("APIGroup")));
    let (code, resources) = admin.get("/apis/wardle.example.com/v1", "application/json").await;
    assert_eq!((code, &resources["kind"]), (200, &json!("APIResourceList")));

    let (_, index) = admin.get("/openapi/v3", "application/json").await;
    let place = &index["paths"]["apis/wardle.example.com/v1"]["serverRelativeURL"];
    assert_eq!(place, "/openapi/v3/apis/wardle.example.com/v1?hash=AB");
    let (code, document) = admin.get(place.as_str().unwrap(), "application/json").await;
    assert_eq!((code, document), (200, json!({"openapi": "3.0.0"})));
    let asked = cluster.extension.seen().pop().expect("a request");
    assert_eq!(asked.headers["x-remote-user"], "system:aggregator");
    let (_, swagger) = admin.get("/openapi/v2", "application/json").await;
    assert_eq!(swagger["definitions"]["Flunder"]["description"], "a flunder");
    assert!(swagger["paths"][format!("/apis/{GROUP}/v1/flunders")].is_object());
    assert_ne!(swagger["paths"]["/api/v1/pods"]["get"]["description"], "not theirs");

    // The old form says as much.
    cluster.extension.set(Mood::Old);
    let services = cluster.site.harness.client.api::<APIService>();
    let mut service = (*services.get("", "v1.wardle.example.com").await.expect("found")).clone();
    service.spec.as_mut().expect("a spec").group_priority_minimum = 20_000;
    services.update(service).await.expect("updated");
    loop {
        let (_, list) = admin.get("/apis", AGGREGATED).await;
        let version = &list["items"][1]["versions"][0];
        if list["items"][1]["metadata"]["name"] == GROUP
            && version["resources"][0].get("shortNames").is_none()
        {
            assert_eq!(version["resources"][0]["responseKind"]["kind"], "Flunder");
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn watches_pass_as_they_come_and_streams_both_ways() {
    let cluster = Cluster::start_registered().await;
    let mut admin = cluster.site.connect(ADMIN).await;
    let (head, mut body) =
        admin.open("GET", &format!("{LIST}?watch=true"), &[], Bytes::new()).await;
    assert_eq!(head.status, 200);
    for name in ["one", "two"] {
        let event = json!({"type": "ADDED", "object": flunder(name)});
        assert!(cluster.extension.tell(&event));
        let line = body.frame().await.expect("more").expect("whole").into_data().expect("bytes");
        assert_eq!(serde_json::from_slice::<Value>(&line).expect("JSON"), event);
    }

    let mut stream = cluster.site.stream(ADMIN, b"http/1.1").await;
    let request = format!(
        "GET {LIST}/one/exec HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: echo"), "{head}");
    stream.write_all(b"hello").await.expect("sent");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HELLO");
    let seen = cluster.extension.seen().pop().expect("a request");
    assert_eq!(seen.headers["x-remote-user"], "admin");
}

#[tokio::test]
async fn nobody_is_sent_elsewhere() {
    let cluster = Cluster::start_registered().await;
    cluster.extension.set(Mood::Elsewhere);
    let mut admin = cluster.site.connect(ADMIN).await;
    let (head, body) = admin.send("GET", LIST, &[], &Value::Null).await;
    assert_eq!(head.status, 502);
    assert!(head.headers.get("location").is_none());
    let text = "the backend attempted to redirect this request, which is not permitted\n";
    assert_eq!(String::from_utf8_lossy(&body), text);
    let upgrade = [("connection", "Upgrade"), ("upgrade", "echo")];
    let (head, _) = admin.send("GET", &format!("{LIST}/one/exec"), &upgrade, &Value::Null).await;
    assert_eq!(head.status, 502);
}

/// Of an extension server that breaks off, or says too much, its own request suffers alone.
#[tokio::test]
async fn a_broken_answer_is_broken_for_who_asked() {
    let cluster = Cluster::start_registered().await;
    let mut admin = cluster.site.connect(ADMIN).await;
    cluster.extension.set(Mood::Verbose);
    let (head, body) = admin.send("GET", LIST, &[], &Value::Null).await;
    let text = String::from_utf8_lossy(&body);
    assert_eq!(head.status, 503, "{text}");
    assert!(text.starts_with("error trying to reach service: "), "{text}");
    // Cut in the middle of its body: what was sent is not taken for all of it.
    cluster.extension.set(Mood::Cut);
    let mut own = cluster.site.connect(ADMIN).await;
    let (head, body) = own.open("GET", LIST, &[], Bytes::new()).await;
    assert_eq!(head.status, 200);
    assert!(body.collect().await.is_err(), "it is known to be half of it");
    cluster.extension.set(Mood::Healthy);
    assert_eq!(admin.get(LIST, "application/json").await.0, 200);
}

/// CVE-2018-1002105: what does not switch leaves no way to it open.
#[tokio::test]
async fn an_upgrade_that_is_refused_is_no_tunnel() {
    let cluster = Cluster::start_registered().await;
    cluster.extension.set(Mood::Unswitched);
    let mut stream = cluster.site.stream(ADMIN, b"http/1.1").await;
    let upgrade = format!(
        "GET {LIST}/one/exec HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    assert!(!head.starts_with("HTTP/1.1 101"), "{head}");
    let n_seen = cluster.extension.seen().len();
    // Whatever follows is a request to this server, or the end.
    let hidden =
        format!("GET {LIST}/hidden HTTP/1.1\r\nhost: localhost\r\nx-remote-user: root\r\n\r\n");
    let _ = stream.write_all(hidden.as_bytes()).await;
    let mut rest = Vec::new();
    let reading = stream.read_to_end(&mut rest);
    let _ = tokio::time::timeout(Duration::from_secs(2), reading).await;
    for seen in &cluster.extension.seen()[n_seen..] {
        assert_eq!(seen.headers["x-remote-user"], "admin", "it came by the front door");
    }
}

/// One end goes in the middle: so does the other.
#[tokio::test]
async fn a_stream_ends_when_either_end_does() {
    let cluster = Cluster::start_registered().await;
    let upgrade = format!(
        "GET {LIST}/one/exec HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n"
    );
    let mut stream = cluster.site.stream(ADMIN, b"http/1.1").await;
    stream.write_all(upgrade.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    stream.write_all(b"hello").await.expect("sent");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HELLO");
    // We say no more: what is on its way still comes, and then the end.
    stream.write_all(b"more").await.expect("sent");
    stream.shutdown().await.expect("half closed");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"MORE");
    // Gone without a word, in the middle of another.
    let mut stream = cluster.site.stream(ADMIN, b"http/1.1").await;
    stream.write_all(upgrade.as_bytes()).await.expect("sent");
    stream.read_u8().await.expect("it begins");
    drop(stream);
    let mut admin = cluster.site.connect(ADMIN).await;
    assert_eq!(admin.get(LIST, "application/json").await.0, 200);
}

#[tokio::test]
async fn what_is_missing_is_said_and_comes_back_by_itself() {
    let cluster = Cluster::start().await;
    cluster.register(GROUP, "v1").await;
    cluster.wait(GROUP, "v1", "False (ServiceNotFound)").await;
    let mut admin = cluster.site.connect(ADMIN).await;
    let (head, body) = admin.send("GET", LIST, &[], &Value::Null).await;
    assert_eq!((head.status.as_u16(), &body[..]), (503, &b"service unavailable\n"[..]));
    cluster.create_service().await;
    cluster.wait(GROUP, "v1", "False (EndpointsNotFound)").await;
    cluster.create_slice().await;
    cluster.wait(GROUP, "v1", "True (Passed)").await;
    assert_eq!(admin.get(LIST, "application/json").await.0, 200);

    let slices = cluster.site.harness.client.api::<EndpointSlice>();
    let mut slice = (*slices.get("default", "ext-1").await.expect("found")).clone();
    slice.endpoints.as_mut().expect("endpoints")[0].conditions =
        Some(k8s_openapi::api::discovery::v1::EndpointConditions {
            ready: Some(false),
            ..Default::default()
        });
    slices.update(slice).await.expect("updated");
    cluster.wait(GROUP, "v1", "False (MissingEndpoints)").await;
    let (_, page) = admin.get("/metrics", "text/plain").await;
    for line in [
        r#"aggregator_unavailable_apiservice{name="v1.wardle.example.com"} 1"#,
        r#"aggregator_unavailable_apiservice{name="v1.apps"} 0"#,
        r#"aggregator_unavailable_apiservice_total{name="v1.wardle.example.com",reason="MissingEndpoints"} 1"#,
    ] {
        assert!(page.as_str().unwrap_or_default().contains(line), "{line}");
    }
    let (_, list) = admin.get("/apis", AGGREGATED).await;
    let group = list["items"].as_array().expect("groups").iter();
    let group = group.clone().find(|it| it["metadata"]["name"] == GROUP).expect("the group");
    assert_eq!(group["versions"][0]["freshness"], "Stale");
    // What was known is still shown.
    assert_eq!(group["versions"][0]["resources"][0]["resource"], "flunders");
    slices.delete("default", "ext-1", DeleteOptions::default()).await.expect("deleted");
    cluster.create_slice().await;
    cluster.wait(GROUP, "v1", "True (Passed)").await;

    let services = cluster.site.harness.client.api::<APIService>();
    services.delete("", "v1.wardle.example.com", DeleteOptions::default()).await.expect("deleted");
    assert_eq!(admin.get(LIST, "application/json").await.0, 404);
    assert_eq!(admin.get("/apis/wardle.example.com", "application/json").await.0, 404);
    let (_, page) = admin.get("/metrics", "text/plain").await;
    let series = r#"aggregator_unavailable_apiservice{name="v1.wardle.example.com"}"#;
    assert!(!page.as_str().unwrap_or_default().contains(series), "what is gone is not shown");
}

#[tokio::test]
async fn a_server_that_is_dead_silent_or_broken_is_not_there() {
    let cluster = Cluster::start().await;
    cluster.create_service().await;
    cluster.create_slice().await;
    cluster.is_cut.store(true, Ordering::Relaxed);
    cluster.register(GROUP, "v1").await;
    cluster.wait(GROUP, "v1", "False (FailedDiscoveryCheck)").await;
    cluster.is_cut.store(false, Ordering::Relaxed);
    // It is asked again without being told to.
    cluster.wait(GROUP, "v1", "True (Passed)").await;
    cluster.is_cut.store(true, Ordering::Relaxed);
    let mut admin = cluster.site.connect(ADMIN).await;
    let (head, body) = admin.send("GET", LIST, &[], &Value::Null).await;
    let text = String::from_utf8_lossy(&body);
    assert_eq!(head.status, 503, "{text}");
    assert!(text.starts_with("error trying to reach service: dial tcp 10.244.0.7:8443"), "{text}");
    cluster.is_cut.store(false, Ordering::Relaxed);
    for mood in [Mood::Broken, Mood::Elsewhere, Mood::Slow] {
        cluster.extension.set(mood);
        let version = format!("v{}", mood as usize);
        cluster.register(GROUP, &version).await;
        cluster.wait(GROUP, &version, "False (FailedDiscoveryCheck)").await;
    }
}

#[tokio::test]
async fn a_server_that_lies_about_itself_is_shown_as_stale() {
    let cluster = Cluster::start().await;
    cluster.create_service().await;
    cluster.create_slice().await;
    cluster.extension.set(Mood::Garbage);
    cluster.register(GROUP, "v1").await;
    cluster.wait(GROUP, "v1", "True (Passed)").await;
    let mut admin = cluster.site.connect(ADMIN).await;
    let (code, list) = admin.get("/apis", AGGREGATED).await;
    assert_eq!(code, 200);
    let mut groups = list["items"].as_array().expect("groups").iter();
    let group = groups.find(|it| it["metadata"]["name"] == GROUP).expect("the group");
    let stale = json!([{"version": "v1", "resources": [], "freshness": "Stale"}]);
    assert_eq!(group["versions"], stale);
    assert_eq!(admin.get("/openapi/v2", "application/json").await.0, 200);
    // More than anybody reads is no answer.
    cluster.extension.set(Mood::Huge);
    cluster.register(GROUP, "v2").await;
    cluster.wait(GROUP, "v2", "False (FailedDiscoveryCheck)").await;
}

#[tokio::test]
async fn components_reach_what_others_serve_as_everybody_does() {
    let cluster = Cluster::start_registered().await;
    let client = &cluster.site.harness.client;
    let resource = GroupVersionResource::new(GROUP, "v1", "flunders");
    let discovered = client.discover().await.expect("discovered");
    assert!(discovered.iter().any(|it| it.resource == resource && it.kind == "Flunder"));
    let flunders = client.dynamic(resource);
    let list = flunders.list("default", ListOptions::default()).await.expect("a list");
    assert_eq!(list.items[0].meta.key.name, "one");
    let mut events = flunders.watch("default", ListOptions::default()).await.expect("a watch");
    while !cluster.extension.tell(&json!({"type": "ADDED", "object": flunder("two")})) {
        tokio::task::yield_now().await;
    }
    let event = events.next().await.expect("an event").expect("whole");
    assert_eq!((event.kind, event.object.meta.key.name.as_str()), (WatchEventKind::Added, "two"));

    // What an autoscaler asks for.
    for group in ["custom.metrics.k8s.io", "external.metrics.k8s.io"] {
        cluster.register(group, "v1beta1").await;
        cluster.wait(group, "v1beta1", "True (Passed)").await;
        client.get_path(&format!("/apis/{group}")).await.expect("the group");
        let path = format!("/apis/{group}/v1beta1/namespaces/ns/pods/*/rps");
        let answer = client.get_path(&format!("{path}?labelSelector=a%3Db")).await;
        let answer: Value = serde_json::from_slice(&answer.expect("an answer")).expect("JSON");
        assert_eq!(
            answer,
            json!({"kind": "Whatever", "path": path, "query": "labelSelector=a%3Db"})
        );
    }
}

#[tokio::test]
async fn whoever_registers_a_server_for_metrics_means_that_one() {
    let cluster = Cluster::start().await;
    let mut admin = cluster.site.connect(ADMIN).await;
    let path = "/apis/metrics.k8s.io/v1beta1/nodes";
    let (code, own) = admin.get(path, "application/json").await;
    assert_eq!((code, &own["kind"]), (200, &json!("NodeMetricsList")));
    cluster.create_service().await;
    cluster.create_slice().await;
    cluster.register("metrics.k8s.io", "v1beta1").await;
    cluster.wait("metrics.k8s.io", "v1beta1", "True (Passed)").await;
    let (code, theirs) = admin.get(path, "application/json").await;
    assert_eq!((code, &theirs["kind"]), (200, &json!("Whatever")));
    let services = cluster.site.harness.client.api::<APIService>();
    services.delete("", "v1beta1.metrics.k8s.io", DeleteOptions::default()).await.expect("deleted");
    let (code, own) = admin.get(path, "application/json").await;
    assert_eq!((code, &own["kind"]), (200, &json!("NodeMetricsList")));
    // What this server cannot do without stays its own.
    services.delete("", "v1.apps", DeleteOptions::default()).await.expect("deleted");
    cluster.register("apps", "v1").await;
    cluster.wait("apps", "v1", "False (NotProxied)").await;
    let (_, own) = admin.get("/apis/apps/v1/deployments", "application/json").await;
    assert_eq!(own["kind"], "DeploymentList");
}

#[tokio::test]
async fn proxies_speak_for_users_and_nobody_else_does() {
    let cluster = Cluster::start().await;
    let world = &cluster.site.harness.world;
    let now = world.clock.now();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let headers = [
        ("content-type", "application/json"),
        ("x-remote-user", "jane"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-scopes", "some"),
    ];
    let issue =
        |name: &str| cluster.proxies.issue_client(name, &["system:masters"], now, &world.random);
    let mut proxy = cluster.site.connect_as(issue("front-proxy-client").expect("issued")).await;
    let (head, body) = proxy.send("POST", path, &headers, &review).await;
    assert_eq!(head.status, 201);
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        body["status"]["userInfo"],
        json!({
            "username": "jane", "uid": "7", "groups": ["system:masters", "system:authenticated"],
            "extra": {"scopes": ["some"]},
        })
    );
    // By itself it is nobody, whatever its certificate says.
    let (head, _) = proxy.send("POST", path, &headers[..1], &review).await;
    assert_eq!(head.status, 401);
    let mut other = cluster.site.connect_as(issue("somebody").expect("issued")).await;
    let (head, _) = other.send("POST", path, &headers, &review).await;
    assert_eq!(head.status, 401);
    // Users, and strangers, speak for themselves.
    let mut user = cluster.site.connect(Some(("front-proxy-client", &["system:masters"]))).await;
    let (_, body) = user.send("POST", path, &headers, &review).await;
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["status"]["userInfo"]["username"], "front-proxy-client");
    let mut stranger = cluster.site.connect(None).await;
    let (head, _) = stranger.send("GET", "/api/v1/secrets", &headers[1..], &Value::Null).await;
    assert_eq!(head.status, 403);
}

#[tokio::test]
async fn other_servers_can_learn_whom_to_believe() {
    let cluster = Cluster::start().await;
    let maps = cluster.site.harness.client.api::<ConfigMap>();
    let name = "extension-apiserver-authentication";
    let found = loop {
        match maps.get("kube-system", name).await {
            Ok(found) => break found,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let data = found.data.as_ref().expect("data");
    let proxies = cluster.proxies.certificate_pem();
    assert_eq!(data["requestheader-client-ca-file"].trim(), proxies.trim());
    assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
    // What somebody breaks is put right.
    let mut broken = (*found).clone();
    broken.data = None;
    maps.update(broken).await.expect("updated");
    loop {
        let found = maps.get("kube-system", name).await.expect("found");
        if found.data.as_ref() == Some(data) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
