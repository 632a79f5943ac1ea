//! What webhooks are asked about, and what they are shown.

use serde_json::{Value, json};

use super::{MAPS, PODS, Setting, named, rule, with};

fn everything() -> Value {
    json!([rule(&["*"], "*", "*", "*/*")])
}

/// `OPERATION resource/sub kind name: object for old`.
fn shown((_, it): &(String, Value)) -> String {
    let kind = |it: &Value| it["kind"].as_str().unwrap_or("nothing").to_owned();
    format!(
        "{} {}/{} {} {:?}: {} for {}, {}",
        it["operation"].as_str().unwrap_or_default(),
        it["resource"]["resource"].as_str().unwrap_or_default(),
        it["subResource"].as_str().unwrap_or_default(),
        it["kind"]["kind"].as_str().unwrap_or_default(),
        it["name"].as_str().unwrap_or_default(),
        kind(&it["object"]),
        kind(&it["oldObject"]),
        kind(&it["options"]),
    )
}

#[tokio::test]
async fn all_that_happens_is_asked_about_but_configurations() {
    let mut on = Setting::start().await;
    let pod = json!({
        "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    on.create(PODS, &pod).await;
    for name in ["a", "b"] {
        let body = json!({"metadata": {"name": name, "labels": {"mine": "yes"}}});
        on.create(MAPS, &body).await;
    }
    let hook = with(on.webhook.hook("allow"), "rules", everything());
    on.configure("validating", "all", &[hook]).await;
    let pod_path = |below: &str| format!("{PODS}/web/{below}");
    let (one, maps) = (format!("{MAPS}/a"), format!("{MAPS}?labelSelector=mine%3Dyes"));
    let binding = json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}});
    let phase = json!({"status": {"phase": "Running"}});
    let nothing = Value::Null;
    for (method, path, body, expected) in [
        (
            "POST",
            MAPS,
            &named("c"),
            vec!["CREATE configmaps/ ConfigMap \"c\": ConfigMap for nothing, CreateOptions"],
        ),
        (
            "PATCH",
            &one,
            &json!({"data": {"k": "v"}}),
            vec!["UPDATE configmaps/ ConfigMap \"a\": ConfigMap for ConfigMap, UpdateOptions"],
        ),
        (
            "DELETE",
            &maps,
            &nothing,
            vec![
                "DELETE configmaps/ ConfigMap \"a\": nothing for ConfigMap, DeleteOptions",
                "DELETE configmaps/ ConfigMap \"b\": nothing for ConfigMap, DeleteOptions",
            ],
        ),
        (
            "PATCH",
            &pod_path("status"),
            &phase,
            vec!["UPDATE pods/status Pod \"web\": Pod for Pod, UpdateOptions"],
        ),
        (
            "POST",
            &pod_path("binding"),
            &binding,
            vec!["CREATE pods/binding Binding \"web\": Binding for nothing, CreateOptions"],
        ),
        (
            "POST",
            &pod_path("exec?command=date&stdout=true"),
            &nothing,
            vec!["CONNECT pods/exec PodExecOptions \"web\": PodExecOptions for nothing, nothing"],
        ),
        (
            "POST",
            &pod_path("attach"),
            &nothing,
            vec![
                "CONNECT pods/attach PodAttachOptions \"web\": PodAttachOptions for nothing, nothing",
            ],
        ),
        (
            "POST",
            &pod_path("eviction"),
            &named("web"),
            vec!["CREATE pods/eviction Eviction \"web\": Eviction for nothing, CreateOptions"],
        ),
        ("GET", MAPS, &nothing, vec![]),
    ] {
        on.connection.call(method, path, body).await;
        let asked: Vec<String> = on.webhook.take_all().iter().map(shown).collect();
        let about: Vec<&String> = asked.iter().filter(|it| !it.contains("events/")).collect();
        assert_eq!(about, expected, "{method} {path}");
    }
    let configurations =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all";
    on.connection.call("PATCH", configurations, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert!(on.webhook.take().is_empty(), "whoever registers wrongly must be able to undo it");
}

#[tokio::test]
async fn a_question_has_all_that_upstream_tells() {
    let mut on = Setting::start().await;
    let hook = on.webhook.hook("allow");
    on.configure("mutating", "all", &[hook]).await;
    on.create(MAPS, &named("m")).await;
    let (_, mut asked) = on.webhook.take_all().remove(0);
    assert!(asked["uid"].as_str().is_some_and(|it| it.len() == 36));
    for field in ["uid", "object"] {
        asked[field] = json!("?");
    }
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let expected = json!({
        "uid": "?", "kind": kind, "resource": resource, "requestKind": kind,
        "requestResource": resource, "name": "m", "namespace": "default", "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": "?", "oldObject": null, "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    });
    let extra = asked["userInfo"].as_object_mut().and_then(|it| it.remove("extra"));
    assert_eq!(asked, expected, "and beside it {extra:?}");
}

/// Rules of one version hold for the others, unless they are meant to be exact.
#[tokio::test]
async fn an_object_is_shown_in_the_version_that_was_asked_for() {
    let mut on = Setting::start().await;
    let old = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let scaler = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70,
            },
        })
    };
    let rules = json!([rule(&["CREATE"], "autoscaling", "v2", "horizontalpodautoscalers")]);
    let hook = with(on.webhook.hook("label/seen"), "rules", rules);
    on.configure("mutating", "all", &[hook.clone()]).await;
    let made = on.create(old, &scaler("a")).await;
    assert_eq!(made["metadata"]["labels"]["seen"], "yes", "{made}");
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 70);
    let (_, asked) = on.webhook.take_all().remove(0);
    assert_eq!(asked["kind"]["version"], "v2");
    assert_eq!(asked["requestKind"]["version"], "v1");
    assert_eq!(asked["object"]["apiVersion"], "autoscaling/v2");
    assert!(asked["object"]["spec"]["metrics"].is_array(), "{asked}");
    on.unconfigure().await;
    on.configure("mutating", "all", &[with(hook, "matchPolicy", json!("Exact"))]).await;
    on.create(old, &scaler("b")).await;
    assert!(on.webhook.take().is_empty());
}

#[tokio::test]
async fn selectors_are_for_namespaces_and_objects() {
    let mut on = Setting::start().await;
    let hook = with(
        on.webhook.hook("deny/no"),
        "namespaceSelector",
        json!({"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]}),
    );
    on.configure("validating", "all", &[hook]).await;
    let free = json!({"metadata": {"name": "free", "labels": {"free": "yes"}}});
    on.create("/api/v1/namespaces", &free).await;
    let (code, _) = on.connection.call("POST", MAPS, &named("m")).await;
    assert_eq!(code, 400);
    on.create("/api/v1/namespaces/free/configmaps", &named("m")).await;
    on.unconfigure().await;
    let selector = json!({"matchLabels": {"look": "yes"}});
    let hook = with(on.webhook.hook("deny/no"), "objectSelector", selector);
    on.configure("validating", "all", &[hook]).await;
    on.create(MAPS, &named("plain")).await;
    let labeled = json!({"metadata": {"name": "n", "labels": {"look": "yes"}}});
    let (code, _) = on.connection.call("POST", MAPS, &labeled).await;
    assert_eq!(code, 400);
}

/// The object in the version that the rule asks for, pruned and defaulted after the change.
#[tokio::test]
async fn custom_resources_are_asked_about_like_all_others() {
    let mut on = Setting::start().await;
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"kept": {"type": "string"}}},
            }}},
        })
    };
    let definition = json!({
        "metadata": {"name": "ropes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "ropes", "singular": "rope", "kind": "Rope"},
            "versions": [version("v1"), version("v2")],
        },
    });
    on.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let ropes = "/apis/example.com/v1/namespaces/default/ropes";
    loop {
        let (code, _) = on.connection.call("GET", ropes, &Value::Null).await;
        if code == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let rules = json!([rule(&["*"], "example.com", "v2", "ropes")]);
    let hook = with(
        on.webhook.hook("spec"),
        "rules",
        json!([rule(&["CREATE", "UPDATE"], "example.com", "v2", "ropes")]),
    );
    on.configure("mutating", "ropes", &[hook]).await;
    let rope = json!({"apiVersion": "example.com/v1", "kind": "Rope", "metadata": {"name": "a"}});
    let made = on.create(ropes, &rope).await;
    assert_eq!(made["spec"], json!({"kept": "yes"}), "{made}");
    let (_, asked) = on.webhook.take_all().remove(0);
    assert_eq!(asked["object"]["apiVersion"], "example.com/v2");
    on.unconfigure().await;
    let hook = with(on.webhook.hook("deny/keep"), "rules", rules);
    on.configure("validating", "ropes", &[hook]).await;
    let one = format!("{ropes}/a");
    for (method, path, body) in [
        (
            "POST",
            ropes,
            json!({"apiVersion": "example.com/v1", "kind": "Rope", "metadata": {"name": "b"}}),
        ),
        ("PATCH", one.as_str(), json!({"spec": {"kept": "no"}})),
        ("DELETE", one.as_str(), Value::Null),
    ] {
        let (code, answer) = on.connection.call(method, path, &body).await;
        assert_eq!(code, 400, "{method}: {answer}");
    }
}
