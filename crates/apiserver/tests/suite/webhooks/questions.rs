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

impl Setting {
    /// What the webhook is asked when this is called.
    async fn check(&mut self, (method, path, body): (&str, &str, &Value), expected: &[&str]) {
        self.connection.call(method, path, body).await;
        let asked: Vec<String> = self.webhook.take_all().iter().map(shown).collect();
        let about: Vec<&String> = asked.iter().filter(|it| !it.contains("events/")).collect();
        assert_eq!(about, expected, "{method} {path}");
    }

    /// A pod and two config maps, and a webhook that is asked about everything.
    async fn start_asking() -> Self {
        let mut on = Self::start().await;
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
        on
    }
}

#[tokio::test]
async fn writes_and_deletions_are_asked_about_one_by_one() {
    let mut on = Setting::start_asking().await;
    let (one, maps) = (format!("{MAPS}/a"), format!("{MAPS}?labelSelector=mine%3Dyes"));
    let created = "CREATE configmaps/ ConfigMap \"c\": ConfigMap for nothing, CreateOptions";
    on.check(("POST", MAPS, &named("c")), &[created]).await;
    let changed = "UPDATE configmaps/ ConfigMap \"a\": ConfigMap for ConfigMap, UpdateOptions";
    on.check(("PATCH", &one, &json!({"data": {"k": "v"}})), &[changed]).await;
    let deleted = [
        "DELETE configmaps/ ConfigMap \"a\": nothing for ConfigMap, DeleteOptions",
        "DELETE configmaps/ ConfigMap \"b\": nothing for ConfigMap, DeleteOptions",
    ];
    on.check(("DELETE", &maps, &Value::Null), &deleted).await;
    on.check(("GET", MAPS, &Value::Null), &[]).await;
    // Whoever registers wrongly must be able to undo it.
    let own = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all";
    on.check(("PATCH", own, &json!({"metadata": {"labels": {"a": "b"}}})), &[]).await;
}

#[tokio::test]
async fn what_is_below_a_pod_is_asked_about_as_its_own_kind() {
    let mut on = Setting::start_asking().await;
    let below = |it: &str| format!("{PODS}/web/{it}");
    let phase = json!({"status": {"phase": "Running"}});
    let status = "UPDATE pods/status Pod \"web\": Pod for Pod, UpdateOptions";
    on.check(("PATCH", &below("status"), &phase), &[status]).await;
    let binding = json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}});
    let bound = "CREATE pods/binding Binding \"web\": Binding for nothing, CreateOptions";
    on.check(("POST", &below("binding"), &binding), &[bound]).await;
    for (stream, kind) in [
        ("exec?command=date&stdout=true", "PodExecOptions"),
        ("attach", "PodAttachOptions"),
        ("portforward?ports=80", "PodPortForwardOptions"),
    ] {
        let name = stream.split('?').next().unwrap_or_default();
        let asked = format!("CONNECT pods/{name} {kind} \"web\": {kind} for nothing, nothing");
        on.check(("POST", &below(stream), &Value::Null), &[&asked]).await;
    }
    let evicted = "CREATE pods/eviction Eviction \"web\": Eviction for nothing, CreateOptions";
    on.check(("POST", &below("eviction"), &named("web")), &[evicted]).await;
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
    on.configure("mutating", "all", std::slice::from_ref(&hook)).await;
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
