//! Webhooks that cannot be asked, or do not answer: refused or let through, as the failurePolicy
//! says; and what must go on in either case.

use std::time::Duration;

use apimachinery::User;
use serde_json::{Value, json};

use super::{MAPS, Setting, named, rule, with};

/// With one second to answer.
fn brief(hook: Value) -> Value {
    with(hook, "timeoutSeconds", json!(1))
}

#[tokio::test]
async fn who_does_not_answer_is_a_refusal_or_none() {
    let mut on = Setting::start().await;
    for (path, why) in [
        ("hang", "context deadline exceeded"),
        ("broken", "an error on the server (\"oh no\") has prevented the request from succeeding"),
        (
            "redirect",
            "the server responded with the status code 307, and redirects are not followed",
        ),
        ("garbage", "failed to call webhook: couldn't get version/kind; json parse error: "),
        ("lie", "received invalid webhook response: expected response.uid="),
        (
            "kindless",
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
        ),
        ("endless", "the answer has more than 8388608 bytes"),
        ("trickle", "context deadline exceeded"),
        ("headers", "message head is too large"),
        ("header", "message head is too large"),
    ] {
        for kind in ["mutating", "validating"] {
            let hook = brief(on.webhook.hook(path));
            let (code, answer) = on.ask_one(kind, hook).await;
            let message = answer["message"].as_str().unwrap_or_default();
            let begin =
                format!("Internal error occurred: failed calling webhook \"{path}.example.com\": ");
            assert!(code == 500 && message.starts_with(&begin), "{path}: {answer}");
            assert!(message.contains(why), "{path}: {message}");
            assert_eq!(answer["reason"], "InternalError");
            let hook = with(brief(on.webhook.hook(path)), "failurePolicy", json!("Ignore"));
            let (code, answer) = on.ask_one(kind, hook).await;
            assert_eq!(code, 201, "{path}: {answer}");
        }
    }
    let asked = on.webhook.take();
    assert!(!asked.iter().any(|it| it == "allow"), "no redirect was followed");
    // What it calls its answer is not looked at, as upstream does not.
    let hook = on.webhook.hook("typeless");
    assert_eq!(on.ask_one("validating", hook).await.0, 201);
    let hook = on.webhook.hook("patch-only");
    let (_, answer) = on.ask_one("mutating", hook).await;
    let why = "webhook returned response.patch but not response.patchType";
    assert!(answer["message"].as_str().unwrap_or_default().contains(why), "{answer}");
    let hook = on.webhook.hook("label/a");
    let (_, answer) = on.ask_one("validating", hook).await;
    let why = "validating webhook may not return response.patch";
    assert!(answer["message"].as_str().unwrap_or_default().contains(why), "{answer}");
}

#[tokio::test]
async fn a_service_without_endpoints_is_named() {
    let mut on = Setting::start().await;
    let mut hook = on.webhook.hook("allow");
    hook["clientConfig"] = json!({"service": {"namespace": "default", "name": "hook"}});
    let (code, answer) = on.ask_one("validating", hook.clone()).await;
    let message = answer["message"].as_str().unwrap_or_default();
    let text = "failed to call webhook: Post \"https://hook.default.svc:443/?timeout=10s\": service \"hook\" not found in namespace \"default\"";
    assert!(code == 500 && message.contains(text), "{answer}");
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443}]},
    });
    on.create("/api/v1/namespaces/default/services", &service).await;
    let (_, answer) = on.ask_one("validating", hook).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains("no endpoints available for service \"hook\""), "{answer}");
}

/// A patch is held to the bounds of a client's.
#[tokio::test]
async fn a_patch_that_grows_without_end_is_refused() {
    let mut on = Setting::start().await;
    for path in ["bomb", "steps", "deep"] {
        let hook = on.webhook.hook(path);
        let (code, answer) = on.ask_one("mutating", hook).await;
        assert!(code == 500 || code == 413, "{path}: {answer}");
        // Nothing half done is stored, and the server goes on.
        let (_, list) = on.connection.call("GET", MAPS, &Value::Null).await;
        let items = list["items"].as_array().expect("a list");
        let is_own =
            |it: &&Value| it["metadata"]["name"].as_str().is_some_and(|it| it.starts_with("a-"));
        assert_eq!(items.iter().find(is_own), None, "{path}");
    }
}

/// They are asked at the same time, over connections that are kept.
#[tokio::test]
async fn a_hundred_webhooks_are_all_asked() {
    let mut on = Setting::start().await;
    let hooks: Vec<Value> = (0..100).map(|it| on.webhook.hook(&format!("warn/h{it}"))).collect();
    on.configure("validating", "all", &hooks).await;
    let labels: Vec<Value> = (0..100).map(|it| on.webhook.hook(&format!("label/l{it}"))).collect();
    on.configure("mutating", "all", &labels).await;
    let made = on.create(MAPS, &named("m")).await;
    assert_eq!(made["metadata"]["labels"].as_object().map(serde_json::Map::len), Some(100));
    let asked = on.webhook.take();
    assert_eq!(asked.len(), 200);
    let order: Vec<String> = (0..100).map(|it| format!("label/l{it}")).collect();
    assert_eq!(asked[..100], order, "those that change it, one after the other");
    // One of them that is dead is named, and costs no more than its own time.
    let dead = [brief(on.webhook.hook("hang"))];
    on.configure("validating", "dead", &dead).await;
    let begin = tokio::time::Instant::now();
    let (code, answer) = on.connection.call("POST", MAPS, &named("n")).await;
    assert!(code == 500 && begin.elapsed() < Duration::from_secs(5), "{answer}");
    assert!(
        answer["message"].as_str().unwrap_or_default().contains("hang.example.com"),
        "{answer}"
    );
}

/// Nobody answers, and whoever fails closed is for everything.
#[tokio::test]
async fn leases_of_nodes_and_leaders_go_on_whatever_fails() {
    let mut on = Setting::start().await;
    let everything = json!([rule(&["*"], "*", "*", "*/*")]);
    let hook = with(brief(on.webhook.hook("broken")), "rules", everything.clone());
    on.configure("mutating", "everything", std::slice::from_ref(&hook)).await;
    on.configure("validating", "everything", &[hook]).await;
    let node = User::new("system:node:n1", &["system:nodes", "system:authenticated"]);
    let manager = User::new("system:kube-controller-manager", &["system:authenticated"]);
    let lease = |name: &str, namespace: &str| {
        serde_json::from_value::<api::coordination::Lease>(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40},
        }))
        .expect("a lease")
    };
    let server = &on.site.harness.server;
    let leases =
        |user: &User| server.client(user.clone(), "test").api::<api::coordination::Lease>();
    leases(&node).create(lease("n1", "kube-node-lease")).await.expect("a node lives");
    let leader = lease("kube-controller-manager", "kube-system");
    leases(&manager).create(leader).await.expect("somebody leads");
    // Of others, and elsewhere, the webhook must be asked.
    let other = server.client(User::new("admin", &["system:masters"]), "test");
    let other = other.api::<api::coordination::Lease>();
    for namespace in ["kube-node-lease", "kube-system", "default"] {
        let err = other.create(lease("x", namespace)).await.expect_err("it fails closed");
        assert_eq!(err.code(), 500);
    }
    // A refusal is one.
    on.unconfigure().await;
    let hook = with(on.webhook.hook("deny/no"), "rules", everything);
    on.configure("validating", "everything", &[hook]).await;
    let server = &on.site.harness.server;
    let leases = server.client(node, "test").api::<api::coordination::Lease>();
    let err = leases.create(lease("n1", "kube-node-lease")).await.expect_err("it says no");
    assert_eq!(err.code(), 400);
}

/// What is said of a configuration, once something is.
pub(super) async fn events_of(on: &mut Setting, configuration: &str) -> Vec<Value> {
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D";
    loop {
        let (_, list) =
            on.connection.call("GET", &format!("{path}{configuration}"), &Value::Null).await;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        if !items.is_empty() {
            return items;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn who_refuses_its_own_pods_is_told() {
    let mut on = Setting::start().await;
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "selector": {"app": "hook"}},
    });
    on.create("/api/v1/namespaces/default/services", &service).await;
    let hook = on.own_hook("deny/unsigned", rule(&["CREATE"], "", "v1", "pods"));
    on.configure("validating", "strict", &[hook]).await;
    let pod = |app: &str| {
        json!({
            "metadata": {"generateName": "hook-", "labels": {"app": app}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        })
    };
    let headers = [("content-type", "application/json")];
    // Pods of others are its business, and nobody need hear of it.
    let (head, _) = on.connection.send("POST", super::PODS, &headers, &pod("web")).await;
    assert!(head.status.as_u16() == 400 && head.headers.get("warning").is_none());
    // Who only tries is told, and nobody else.
    let dry = format!("{}?dryRun=All", super::PODS);
    for path in [dry.as_str(), super::PODS] {
        let (head, _) = on.connection.send("POST", path, &headers, &pod("hook")).await;
        assert_eq!(head.status.as_u16(), 400);
        let warning = head.headers["warning"].to_str().expect("text").to_owned();
        assert!(warning.contains("it refuses one that its Service"), "{warning}");
    }
    let found = events_of(&mut on, "strict").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["reason"], "WebhookBlocksItself");
    let message = found[0]["message"].as_str().unwrap_or_default();
    let end = "Now: admission webhook \"deny-unsigned.example.com\" denied the request: unsigned";
    assert!(message.ends_with(end), "{message}");
}

#[tokio::test]
async fn who_keeps_its_own_pods_away_is_told() {
    let mut on = Setting::start().await;
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443}]},
    });
    on.create("/api/v1/namespaces/default/services", &service).await;
    let mut hook = on.webhook.hook("allow");
    hook["clientConfig"] = json!({"service": {"namespace": "default", "name": "hook"}});
    hook["rules"] = json!([rule(&["CREATE"], "", "v1", "pods")]);
    on.configure("validating", "locked-out", &[hook]).await;
    let pod = json!({
        "metadata": {"generateName": "hook-", "labels": {"app": "hook"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for _ in 0..3 {
        let headers = [("content-type", "application/json")];
        let (head, _) = on.connection.send("POST", super::PODS, &headers, &pod).await;
        assert_eq!(head.status.as_u16(), 500);
        let warning = head.headers["warning"].to_str().expect("text").to_owned();
        assert!(warning.contains("keeps its own pods from being created"), "{warning}");
    }
    let found = events_of(&mut on, "locked-out").await;
    assert_eq!(found.len(), 1, "it is said once in a while");
    assert_eq!(found[0]["reason"], "WebhookBlocksItself");
    assert_eq!(found[0]["involvedObject"]["kind"], "ValidatingWebhookConfiguration");
}

#[tokio::test]
async fn calls_are_counted() {
    let mut on = Setting::start().await;
    for path in ["allow", "deny/no", "broken"] {
        let hook = on.webhook.hook(path);
        on.ask_one("validating", hook).await;
    }
    let hook = with(on.webhook.hook("broken"), "failurePolicy", json!("Ignore"));
    on.ask_one("mutating", hook).await;
    let (_, page) = on.connection.get("/metrics", "text/plain").await;
    let page = page.as_str().unwrap_or_default();
    for line in [
        r#"apiserver_admission_webhook_request_total{code="200",name="allow.example.com",operation="CREATE",rejected="false",type="validating"} 1"#,
        r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="deny-no.example.com",operation="CREATE",rejection_code="400",type="validating"} 1"#,
        r#"apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="broken.example.com",operation="CREATE",rejection_code="500",type="validating"} 1"#,
        r#"apiserver_admission_webhook_fail_open_count{name="broken.example.com",type="admit"} 1"#,
        r#"apiserver_admission_webhook_admission_duration_seconds_count{name="deny-no.example.com",operation="CREATE",rejected="true",type="validating"} 1"#,
    ] {
        assert!(page.contains(line), "{line}");
    }
    let (code, _) = on.connection.call("POST", MAPS, &named("m")).await;
    assert_eq!(code, 201);
}
