//! What admission plugins are shown on each way in, and what becomes of what they take, say and
//! note.

mod reservations;

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use admission::{Admitting, Attributes, Context, Draft, Forms, Phase, Plugin, Validating};
use kvstore::memory::Memory;
use serde_json::{Value, json};

use crate::harness;
use crate::harness::wire::{ADMIN, Connection, Site};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes down what it is shown of the requests of one user.
struct Recorder(Log);

const RECORDED: &str = "recorded";

impl Recorder {
    fn record(&self, phase: Phase, context: &Context<'_>) {
        let kind_and_name = |it: &Value| {
            let kind = it["kind"].as_str().unwrap_or("?");
            let name = it["metadata"]["name"].as_str().unwrap_or_default();
            if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") }
        };
        let shown = |it: Option<&Value>| it.map_or_else(|| "nothing".to_owned(), kind_and_name);
        let request = &context.request;
        let options = request.options.to_value(request.operation).unwrap_or_default();
        self.0.push(format!(
            "{phase:?} {} {}/{} {:?} as {}: {} for {}, {}{}",
            request.operation.text(),
            request.kind.names().plural,
            request.subresource,
            request.name,
            request.kind_of_object().kind,
            shown(context.draft().map(Draft::tree)),
            shown(context.old().map(Forms::tree)),
            options["kind"].as_str().unwrap_or("no options"),
            if request.is_dry_run() { ", dry" } else { "" },
        ));
    }
}

impl Plugin for Recorder {
    fn name(&self) -> &'static str {
        "Recorder"
    }

    fn handles(&self, _: Phase, request: &Attributes<'_>) -> bool {
        request.user.name == RECORDED
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        self.record(Phase::Mutate, context);
        Box::pin(ready(Ok(())))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        self.record(Phase::Validate, context);
        Box::pin(ready(Ok(None)))
    }
}

struct Recorded {
    log: Log,
    site: Site,
    connection: Connection,
}

impl Recorded {
    async fn start() -> Self {
        let log = Log::default();
        let plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Recorder(log.clone()))];
        let site = Site::start_with(Arc::new(Memory::new()), plugins).await;
        let connection = site.connect(Some((RECORDED, &["system:masters"]))).await;
        let on = Self { log, site, connection };
        on.create("/api/v1/namespaces/default/serviceaccounts", &named("default")).await;
        on
    }

    /// Not recorded.
    async fn create(&self, path: &str, body: &Value) {
        let (code, answer) = self.site.connect(ADMIN).await.call("POST", path, body).await;
        assert_eq!(code, 201, "{path}: {answer}");
    }

    /// What both phases were shown, which must be the same.
    async fn check(&mut self, call: (&str, &str, &Value), code: u16, expected: &[&str]) {
        let (method, path, body) = call;
        let (answered, answer) = self.connection.call(method, path, body).await;
        assert_eq!(answered, code, "{method} {path}: {answer}");
        let all = self.log.take();
        for phase in ["Mutate ", "Validate "] {
            let of: Vec<&str> = all.iter().filter_map(|it| it.strip_prefix(phase)).collect();
            assert_eq!(of, expected, "{phase}{method} {path}");
        }
    }
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn writes_are_admitted_with_what_they_write_and_what_is_there() {
    let mut on = Recorded::start().await;
    let (one, merge) = (format!("{MAPS}/a"), json!({"data": {"k": "v"}}));
    let created = "CREATE configmaps/ \"\" as ConfigMap: ConfigMap a for nothing, CreateOptions";
    on.check(("POST", MAPS, &named("a")), 201, &[created]).await;
    let updated =
        "UPDATE configmaps/ \"a\" as ConfigMap: ConfigMap a for ConfigMap a, UpdateOptions";
    on.check(("PUT", &one, &named("a")), 200, &[updated]).await;
    on.check(("PATCH", &one, &merge), 200, &[updated]).await;
    let dry = format!("{updated}, dry");
    on.check(("PATCH", &format!("{one}?dryRun=All"), &merge), 200, &[dry.as_str()]).await;
    on.create(PODS, &pod("web")).await;
    let status = "UPDATE pods/status \"web\" as Pod: Pod web for Pod web, UpdateOptions";
    let phase = json!({"status": {"phase": "Running"}});
    on.check(("PATCH", &format!("{PODS}/web/status"), &phase), 200, &[status]).await;
    // Reads are not admitted.
    on.check(("GET", &one, &Value::Null), 200, &[]).await;
    on.check(("GET", MAPS, &Value::Null), 200, &[]).await;
}

#[tokio::test]
async fn a_name_is_drawn_after_the_first_phase() {
    let mut on = Recorded::start().await;
    let body = json!({"metadata": {"generateName": "a-"}});
    assert_eq!(on.connection.call("POST", MAPS, &body).await.0, 201);
    let all = on.log.take();
    let shown = "CREATE configmaps/ \"\" as ConfigMap: ConfigMap";
    assert_eq!(all[0], format!("Mutate {shown} for nothing, CreateOptions"));
    assert!(all[1].starts_with(&format!("Validate {shown} a-")), "{}", all[1]);
}

#[tokio::test]
async fn what_is_posted_to_a_subresource_is_admitted_as_its_own_kind() {
    let mut on = Recorded::start().await;
    on.create(PODS, &pod("web")).await;
    let binding = json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}});
    let bound = "CREATE pods/binding \"web\" as Binding: Binding web for nothing, CreateOptions";
    on.check(("POST", &format!("{PODS}/web/binding"), &binding), 201, &[bound]).await;
    // An eviction is no DELETE: what it does to the pod is not admitted again.
    let evicted =
        "CREATE pods/eviction \"web\" as Eviction: Eviction web for nothing, CreateOptions";
    let eviction = format!("{PODS}/web/eviction");
    on.check(("POST", &eviction, &named("web")), 201, &[evicted]).await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"a": "b"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod("")["spec"]});
    let deployment = json!({
        "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    on.create(deployments, &deployment).await;
    let scaled = "UPDATE deployments/scale \"d\" as Scale: Scale d for Scale d, UpdateOptions";
    let three = json!({"spec": {"replicas": 3}});
    on.check(("PATCH", &format!("{deployments}/d/scale"), &three), 200, &[scaled]).await;
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let reviewed = "CREATE selfsubjectaccessreviews/ \"\" as SelfSubjectAccessReview: \
         SelfSubjectAccessReview for nothing, CreateOptions";
    on.check(("POST", path, &review), 201, &[reviewed]).await;
}

#[tokio::test]
async fn each_deletion_is_admitted_with_what_it_deletes() {
    let mut on = Recorded::start().await;
    for name in ["a", "b", "c"] {
        let body =
            json!({"metadata": {"name": name, "labels": {"last": (name == "c").to_string()}}});
        on.create(MAPS, &body).await;
    }
    let deleted = |name| {
        format!(
            "DELETE configmaps/ {name:?} as ConfigMap: nothing for ConfigMap {name}, DeleteOptions"
        )
    };
    let dry = format!("{}, dry", deleted("a"));
    on.check(("DELETE", &format!("{MAPS}/a?dryRun=All"), &Value::Null), 200, &[&dry]).await;
    let options = json!({"dryRun": ["All"]});
    on.check(("DELETE", &format!("{MAPS}/a"), &options), 200, &[&dry]).await;
    on.check(("DELETE", &format!("{MAPS}/a"), &Value::Null), 200, &[&deleted("a")]).await;
    let rest = format!("{MAPS}?labelSelector=last%3Dfalse");
    on.check(("DELETE", &rest, &Value::Null), 200, &[&deleted("b")]).await;
    on.create(MAPS, &named("d")).await;
    let both = [deleted("c"), deleted("d")];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    // What the server keeps in every namespace is not asked about here.
    let selected = format!("{MAPS}?fieldSelector=metadata.name%21%3Dkube-root-ca.crt");
    on.check(("DELETE", &selected, &Value::Null), 200, &both).await;
}

#[tokio::test]
async fn streams_are_admitted_with_their_options_and_logs_are_read() {
    let mut on = Recorded::start().await;
    on.create(PODS, &pod("web")).await;
    let shown = |stream: &str, kind: &str| {
        format!("CONNECT pods/{stream} \"web\" as {kind}: {kind} for nothing, no options")
    };
    for (stream, query, kind) in [
        ("exec", "command=date&stdout=true", "PodExecOptions"),
        ("attach", "", "PodAttachOptions"),
        ("portforward", "ports=80", "PodPortForwardOptions"),
    ] {
        // The pod has no node, which is found out later.
        for method in ["GET", "POST"] {
            let path = format!("{PODS}/web/{stream}?{query}");
            on.check((method, &path, &Value::Null), 400, &[&shown(stream, kind)]).await;
        }
    }
    on.check(("GET", &format!("{PODS}/web/log"), &Value::Null), 204, &[]).await;
}

/// Shows what the second phase sees of a Service, and lets nobody run `rm`.
struct Looks(Log);

impl Plugin for Looks {
    fn name(&self) -> &'static str {
        "Looks"
    }

    fn handles(&self, phase: Phase, _: &Attributes<'_>) -> bool {
        phase == Phase::Validate
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let tree = context.draft().map(Draft::tree).cloned().unwrap_or_default();
        context.annotate("looks.example.com/operation", context.request.operation.text());
        if let Some(address) = tree["spec"]["clusterIP"].as_str() {
            self.0.push(address);
        }
        if tree["command"][0] == "rm" || tree["data"]["refuse"].is_string() {
            context.warn("this is looked at");
            return Box::pin(ready(Err(context.forbidden("it is dangerous"))));
        }
        context.warn("this was looked at");
        context.warn("this was looked at");
        Box::pin(ready(Ok(None)))
    }
}

#[tokio::test]
async fn plugins_see_addresses_and_are_heard_whatever_the_answer() {
    let log = Log::default();
    let plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Looks(log.clone()))];
    let lines = harness::logs();
    let site = Site::start_with(Arc::new(Memory::new()), plugins).await;
    let mut connection = site.connect(ADMIN).await;
    log.take();
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    let (code, answer) = connection.call("POST", services, &service).await;
    assert_eq!(code, 201, "{answer}");
    let address = answer["spec"]["clusterIP"].as_str().expect("an address").to_owned();
    assert_eq!(log.take(), [address], "given before plugins look");

    let mut warnings = async |body: Value| {
        let headers = [("content-type", "application/json"), ("audit-id", "looked-at")];
        let (head, _) = connection.send("POST", MAPS, &headers, &body).await;
        let all = head.headers.get_all("warning").iter();
        let all: Vec<String> = all.map(|it| it.to_str().unwrap_or_default().to_owned()).collect();
        (head.status.as_u16(), all)
    };
    let said = |text: &str| vec![format!("299 - \"{text}\"")];
    assert_eq!(warnings(named("a")).await, (201, said("this was looked at")));
    let refused = json!({"metadata": {"name": "b"}, "data": {"refuse": ""}});
    assert_eq!(warnings(refused).await, (403, said("this is looked at")));
    let exec = "/api/v1/namespaces/default/pods/web/exec?command=rm";
    let (code, answer) = connection.call("POST", exec, &Value::Null).await;
    let text = "pods \"web\" is forbidden: it is dangerous";
    assert_eq!((code, answer["message"].as_str()), (403, Some(text)));

    let lines = lines.text();
    let line = lines.lines().find(|it| it.contains("looked-at") && it.contains("resp=403"));
    let line = line.expect("the request is logged");
    assert!(line.contains("looks.example.com/operation") && line.contains("CREATE"), "{line}");
}
