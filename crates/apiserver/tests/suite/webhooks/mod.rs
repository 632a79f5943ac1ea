//! Admission webhooks, asked over TLS: in which order, about what, and what becomes of what they
//! say, or do not say.

mod credentials;
mod explained;
mod failures;
mod first_start;
mod measured;
mod questions;
mod reloaded;
pub(crate) mod server;
mod unlogged;

use std::sync::Arc;

use admission::{Configuration, Selection};
use apiserver::Config;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lifecycle::Tasks;
use serde_json::{Value, json};

use crate::harness::everything;
use crate::harness::wire::{ADMIN, Connection, Site};
use server::{Webhook, rule};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// A server with a webhook that it can be told to ask.
struct Setting {
    site: Site,
    webhook: Webhook,
    connection: Connection,
}

impl Setting {
    async fn start() -> Self {
        Self::start_told(|_| (Selection::default(), Configuration::default())).await
    }

    /// With plugins that are told something about the webhook.
    async fn start_told(told: impl FnOnce(&Webhook) -> (Selection, Configuration)) -> Self {
        let tasks = Tasks::new();
        let webhook = Webhook::start(&tasks).await;
        let (admission_plugins, admission_configuration) = told(&webhook);
        let config = Config { admission_plugins, admission_configuration, ..everything() };
        let store = Arc::new(kvstore::memory::Memory::new());
        let site = Site::start_configured(store, Vec::new(), |_, _| config).await;
        let connection = site.connect(ADMIN).await;
        let mut setting = Self { site, webhook, connection };
        let account = json!({"metadata": {"name": "default"}});
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        setting.create(accounts, &account).await;
        setting
    }

    async fn create(&mut self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.connection.call("POST", path, body).await;
        assert_eq!(code, 201, "{path}: {answer}");
        answer
    }

    /// `kind` is `mutating` or `validating`.
    async fn configure(&mut self, kind: &str, name: &str, webhooks: &[Value]) {
        let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations");
        let body = json!({"metadata": {"name": name}, "webhooks": webhooks});
        self.create(&path, &body).await;
    }

    async fn unconfigure(&mut self) {
        for kind in ["mutating", "validating"] {
            let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations");
            let (code, answer) = self.connection.call("DELETE", &path, &Value::Null).await;
            assert_eq!(code, 200, "{answer}");
        }
        self.webhook.take();
    }

    /// One webhook alone, about a new config map: the code and the message, or the object.
    async fn ask_one(&mut self, kind: &str, hook: Value) -> (u16, Value) {
        self.configure(kind, "only", &[hook]).await;
        let (code, answer) = self.connection.call("POST", MAPS, &named("")).await;
        self.unconfigure_quietly().await;
        (code, answer)
    }

    /// A webhook of the Service `hook` in namespace `default`.
    fn own_hook(&self, path: &str, rule: Value) -> Value {
        let (authority, port) = self.webhook.address();
        let mut hook = with(self.webhook.hook(path), "rules", json!([rule]));
        hook["clientConfig"] = json!({
            "service": {
                "namespace": "default", "name": "hook", "port": port, "path": format!("/{path}"),
            },
            "caBundle": STANDARD.encode(authority),
        });
        hook
    }

    async fn unconfigure_quietly(&mut self) {
        for kind in ["mutating", "validating"] {
            let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations");
            self.connection.call("DELETE", &path, &Value::Null).await;
        }
    }
}

/// With a generated name if it has none.
fn named(name: &str) -> Value {
    match name {
        "" => json!({"metadata": {"generateName": "a-"}}),
        _ => json!({"metadata": {"name": name}}),
    }
}

fn with(mut hook: Value, field: &str, value: Value) -> Value {
    hook[field] = value;
    hook
}

#[tokio::test]
async fn webhooks_are_asked_by_configuration_and_as_listed() {
    let mut on = Setting::start().await;
    let hooks = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|it| on.webhook.hook(&format!("label/{it}"))).collect()
    };
    let (first, second) = (hooks(&["z", "y"]), hooks(&["a"]));
    on.configure("mutating", "b", &second).await;
    on.configure("mutating", "a", &first).await;
    assert!(on.webhook.take().is_empty(), "nobody is asked about configurations");
    let made = on.create(MAPS, &named("m")).await;
    let labels = json!({"a": "yes", "y": "yes", "z": "yes"});
    assert_eq!(made["metadata"]["labels"], labels, "what is answered is what is stored");
    let asked = on.webhook.take_all();
    let paths: Vec<&str> = asked.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(paths, ["label/z", "label/y", "label/a"]);
    let seen = |index: usize| asked[index].1["object"]["metadata"]["labels"].clone();
    assert_eq!(seen(1), json!({"z": "yes"}), "the second sees what the first did");
    assert_eq!(seen(2), json!({"y": "yes", "z": "yes"}));
    // What is switched off by a change is off at once.
    let path = format!("{CONFIGURATIONS}/mutatingwebhookconfigurations/b");
    let (code, answer) = on.connection.call("DELETE", &path, &Value::Null).await;
    assert_eq!(code, 200, "{answer}");
    let made = on.create(MAPS, &named("n")).await;
    assert_eq!(made["metadata"]["labels"], json!({"y": "yes", "z": "yes"}));
}

#[tokio::test]
async fn who_wants_to_know_is_asked_again_after_a_change() {
    let mut on = Setting::start().await;
    let again = |it: Value| with(it, "reinvocationPolicy", json!("IfNeeded"));
    let hooks = [
        again(on.webhook.hook("label/a")),
        on.webhook.hook("label/b"),
        again(on.webhook.hook("allow")),
    ];
    on.configure("mutating", "all", &hooks).await;
    on.create(MAPS, &named("m")).await;
    // The first because of what the second did; the last has seen everything already.
    assert_eq!(on.webhook.take(), ["label/a", "label/b", "allow", "label/a"]);
    // Nothing changes: nobody is asked twice.
    let labeled = json!({"metadata": {"name": "n", "labels": {"a": "yes", "b": "yes"}}});
    on.create(MAPS, &labeled).await;
    assert_eq!(on.webhook.take(), ["label/a", "label/b", "allow"]);
    // What was not matched in the first round is not asked in the second.
    on.unconfigure().await;
    let late =
        with(on.webhook.hook("allow"), "objectSelector", json!({"matchLabels": {"b": "yes"}}));
    let hooks = [again(late), on.webhook.hook("label/b")];
    on.configure("mutating", "all", &hooks).await;
    on.create(MAPS, &named("o")).await;
    assert_eq!(on.webhook.take(), ["label/b"]);
}

#[tokio::test]
async fn validating_webhooks_are_asked_at_once_and_the_first_refusal_in_order_is_the_answer() {
    let mut on = Setting::start().await;
    let hooks = [
        on.webhook.hook("slow/first"),
        on.webhook.hook("deny/second"),
        on.webhook.hook("slow/third"),
    ];
    on.configure("validating", "all", &hooks).await;
    let begin = tokio::time::Instant::now();
    let (code, answer) = on.connection.call("POST", MAPS, &named("m")).await;
    // One after the other would be 600 ms at least.
    assert!(begin.elapsed().as_millis() < 600, "{:?}", begin.elapsed());
    let text = "admission webhook \"slow-first.example.com\" denied the request: first";
    assert_eq!((code, answer["message"].as_str()), (400, Some(text)), "{answer}");
    assert!(answer["reason"].is_null() && answer["status"] == "Failure", "{answer}");
    let mut asked = on.webhook.take();
    asked.sort();
    assert_eq!(asked, ["deny/second", "slow/first", "slow/third"], "all are waited for");
    let (code, _) = on.connection.call("GET", &format!("{MAPS}/m"), &Value::Null).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn refusals_are_passed_on_as_they_were_said() {
    let mut on = Setting::start().await;
    for kind in ["mutating", "validating"] {
        let hook = on.webhook.hook("silent");
        let (code, answer) = on.ask_one(kind, hook).await;
        let text =
            "admission webhook \"silent.example.com\" denied the request without explanation";
        assert_eq!((code, answer["message"].as_str()), (400, Some(text)));
        // A conflict of somebody else is no reason for us to try again.
        on.webhook.take();
        let hook = on.webhook.hook("refuse/not-now");
        let (code, answer) = on.ask_one(kind, hook).await;
        let text = "admission webhook \"refuse-not-now.example.com\" denied the request: not-now";
        assert_eq!((code, answer["message"].as_str()), (409, Some(text)));
        assert_eq!(answer["reason"], "Conflict");
        assert_eq!(on.webhook.take().len(), 1);
    }
}

#[tokio::test]
async fn a_dry_run_asks_only_who_does_nothing_then() {
    let mut on = Setting::start().await;
    let hook = on.webhook.hook("label/a");
    on.configure("mutating", "quiet", &[with(hook, "sideEffects", json!("NoneOnDryRun"))]).await;
    let path = format!("{MAPS}?dryRun=All");
    let (code, answer) = on.connection.call("POST", &path, &named("m")).await;
    assert_eq!((code, &answer["metadata"]["labels"]["a"]), (201, &json!("yes")), "{answer}");
    let asked = on.webhook.take_all();
    assert_eq!(asked[0].1["dryRun"], true);
    assert_eq!(asked[0].1["options"]["dryRun"], json!(["All"]));
}

#[tokio::test]
async fn warnings_and_annotations_go_where_they_belong() {
    let lines = crate::harness::logs();
    let mut on = Setting::start().await;
    let hooks = [on.webhook.hook("warn/because")];
    on.configure("validating", "all", &hooks).await;
    let hooks = [on.webhook.hook("label/secret")];
    on.configure("mutating", "all", &hooks).await;
    let headers = [("content-type", "application/json"), ("audit-id", "warned-by-hook")];
    let (head, _) = on.connection.send("POST", MAPS, &headers, &named("m")).await;
    let warnings: Vec<_> = head.headers.get_all("warning").iter().collect();
    assert_eq!(warnings, ["299 - \"mind the gap\""]);
    let lines = lines.text();
    let line = lines.lines().find(|it| it.contains("warned-by-hook") && it.contains("resp=201"));
    let line = line.expect("the request is logged");
    for part in [
        "warn-because.example.com/why",
        "mutation.webhook.admission.k8s.io/round_0_index_0",
        "label-secret.example.com",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("patch.webhook"), "what was changed is content: {line}");
}

#[tokio::test]
async fn defaults_are_filled_in_after_a_change_and_nothing_else_gets_past_the_rules() {
    let mut on = Setting::start().await;
    let pods = |hook: Value| with(hook, "rules", json!([rule(&["CREATE"], "", "v1", "pods")]));
    let hook = pods(on.webhook.hook("sidecar"));
    on.configure("mutating", "pods", &[hook]).await;
    let pod = json!({
        "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let made = on.create(PODS, &pod).await;
    let sidecar = &made["spec"]["containers"][1];
    assert_eq!(sidecar["terminationMessagePolicy"], "File", "{made}");
    on.unconfigure().await;
    for (path, code, text) in [
        ("break", 500, "Internal error occurred: invalid type: integer `7`"),
        ("move", 400, "the namespace of the provided object does not match the namespace sent"),
        ("misfit", 500, "Internal error occurred: "),
    ] {
        let hook = on.webhook.hook(path);
        let (answered, answer) = on.ask_one("mutating", hook).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(answered == code && message.starts_with(text), "{path}: {answer}");
    }
    // Which version is written over is not theirs to say.
    let hook = on.webhook.hook("version");
    let (code, answer) = on.ask_one("mutating", hook).await;
    assert_eq!(code, 201, "{answer}");
    assert_ne!(answer["metadata"]["resourceVersion"], "7");
}
