//! Dry runs that are explained: what each plugin, policy and webhook does, and to whom that is
//! told.

use serde_json::{Value, json};

use super::{MAPS, PODS, Setting};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

async fn explain(on: &mut Setting, method: &str, path: &str, body: &Value) -> Value {
    let (code, report) = explain_with(on, method, path, &[], body).await;
    assert_eq!(code, 200, "{report}");
    assert_eq!(report["kind"], "AdmissionReport");
    report
}

async fn explain_with(
    on: &mut Setting,
    method: &str,
    path: &str,
    more: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let mut headers = vec![("content-type", kind), ("xebec-explain", "admission")];
    headers.extend(more);
    let path = format!("{path}?dryRun=All");
    let (head, body) = on.connection.send(method, &path, &headers, body).await;
    let body = serde_json::from_slice(&body).expect("JSON");
    (head.status.as_u16(), body)
}

fn step<'a>(report: &'a Value, plugin: &str, phase: &str) -> &'a Value {
    let steps = report["steps"].as_array().expect("steps");
    let found = steps.iter().find(|it| it["plugin"] == plugin && it["phase"] == phase);
    found.unwrap_or_else(|| panic!("no {plugin} ({phase}): {report}"))
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

async fn demand(on: &mut Setting, name: &str, actions: &[&str], expression: &str) {
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""],
                "apiVersions": ["v1"], "resources": ["configmaps"],
            }]},
            "validations": [
                {"expression": "true"},
                {"expression": expression, "message": "says no"},
            ],
            "auditAnnotations": [{"key": "seen", "valueExpression": "'yes'"}],
        },
    });
    on.create(POLICIES, &policy).await;
    let binding = json!({
        "metadata": {"name": format!("{name}-bound")},
        "spec": {"policyName": name, "validationActions": actions},
    });
    on.create(BINDINGS, &binding).await;
}

#[tokio::test]
async fn a_plugins_change_is_a_difference_and_nothing_is_stored() {
    let mut on = Setting::start().await;
    let report = explain(&mut on, "POST", PODS, &pod("web")).await;
    assert_eq!((&report["operation"], &report["verdict"]), (&json!("CREATE"), &json!("Allowed")));
    let changes = &step(&report, "ServiceAccount", "mutate")["changes"];
    let changed = json!({"path": "spec.serviceAccountName", "after": "default"});
    assert!(changes.as_array().expect("changes").contains(&changed), "{changes}");
    assert_eq!(report["object"]["spec"]["serviceAccountName"], "default");
    let (code, _) = on.connection.call("GET", &format!("{PODS}/web"), &Value::Null).await;
    assert_eq!(code, 404, "nothing was stored");
}

#[tokio::test]
async fn all_policies_and_webhooks_are_told_not_only_the_first_that_refuses() {
    let mut on = Setting::start().await;
    demand(&mut on, "first.example.com", &["Deny"], "object.metadata.name != 'm'").await;
    demand(&mut on, "second.example.com", &["Warn"], "has(object.data)").await;
    let labels = [on.webhook.hook("label/a")];
    let (deny, other) = (on.webhook.hook("deny/why"), on.webhook.hook("allow"));
    on.configure("mutating", "labels", &labels).await;
    on.configure("validating", "all", &[deny, other]).await;
    let report = explain(&mut on, "POST", MAPS, &json!({"metadata": {"name": "m"}})).await;
    assert_eq!(report["verdict"], "Refused");

    let hook = &step(&report, "MutatingAdmissionWebhook", "mutate")["parts"][0];
    assert_eq!(hook["by"]["name"], "label-a.example.com");
    assert_eq!(hook["changes"][0]["path"], "metadata.labels");
    assert!(hook["micros"].as_u64().is_some_and(|it| it > 0), "{hook}");

    let parts = &step(&report, "ValidatingAdmissionPolicy", "validate")["parts"];
    let (first, second) = (&parts[0], &parts[1]);
    assert_eq!(first["by"]["binding"], "first.example.com-bound");
    assert_eq!(first["refusal"]["code"], 422);
    assert_eq!(first["expressions"][1]["message"], "says no");
    assert!(first["expressions"][0].get("message").is_none(), "it holds");
    assert!(first["expressions"][1]["cost"].as_u64() > Some(1), "{first}");
    assert!(first["cost"].as_u64() >= first["expressions"][1]["cost"].as_u64());
    assert_eq!(first["annotations"]["first.example.com/seen"], "yes");
    let warning = second["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("'second.example.com'"), "{second}");
    assert!(second.get("refusal").is_none());

    let hooks = &step(&report, "ValidatingAdmissionWebhook", "validate")["parts"];
    let refusing: Vec<&Value> = hooks
        .as_array()
        .expect("parts")
        .iter()
        .filter(|it| it.get("refusal").is_some())
        .map(|it| &it["by"]["name"])
        .collect();
    assert_eq!(refusing, ["deny-why.example.com"]);
    let message = report["refusal"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("first.example.com"), "the first is the answer: {message}");
}

#[tokio::test]
async fn updates_and_deletions_are_explained() {
    let mut on = Setting::start().await;
    on.create(MAPS, &json!({"metadata": {"name": "m"}})).await;
    demand(&mut on, "never.example.com", &["Deny"], "oldObject == null").await;
    let (map, change) = (format!("{MAPS}/m"), json!({"data": {"a": "b"}}));
    let report = explain(&mut on, "PATCH", &map, &change).await;
    assert_eq!((&report["operation"], &report["verdict"]), (&json!("UPDATE"), &json!("Refused")));
    let report = explain(&mut on, "DELETE", &map, &Value::Null).await;
    assert_eq!((&report["operation"], &report["verdict"]), (&json!("DELETE"), &json!("Refused")));
    let (code, kept) = on.connection.call("GET", &map, &Value::Null).await;
    assert_eq!((code, &kept["data"]), (200, &Value::Null), "nothing has happened");
}

/// Who may create config maps, and nothing else.
async fn writer(on: &mut Setting) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "w"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    ]});
    on.create(&format!("{rbac}/clusterroles"), &role).await;
    let binding = json!({
        "metadata": {"name": "w"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "w"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "w"}],
    });
    on.create(&format!("{rbac}/clusterrolebindings"), &binding).await;
}

#[tokio::test]
async fn who_may_not_read_a_policy_is_told_what_a_refusal_tells() {
    let mut on = Setting::start().await;
    writer(&mut on).await;
    demand(&mut on, "refuses.example.com", &["Deny"], "object.metadata.name != 'm'").await;
    demand(&mut on, "agrees.example.com", &["Deny"], "object.metadata.name == 'm'").await;
    let hook = on.webhook.hook("label/a");
    on.configure("mutating", "labels", &[hook]).await;
    let object = json!({"metadata": {"name": "m"}});
    let acting = [("impersonate-user", "w")];
    let (code, report) = explain_with(&mut on, "POST", MAPS, &acting, &object).await;
    assert_eq!(code, 200, "{report}");
    let text = report["steps"].to_string();
    assert!(text.contains("refuses.example.com"), "{text}");
    for hidden in ["agrees.example.com", "label-a", "object.metadata.name", "\"cost\"", "seen"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert!(text.contains("(no right to read it)"), "{text}");
    let (_, whole) = explain_with(&mut on, "POST", MAPS, &[], &object).await;
    assert!(whole["steps"].to_string().contains("agrees.example.com"), "{whole}");
}

#[tokio::test]
async fn who_may_not_write_is_told_nothing() {
    let mut on = Setting::start().await;
    writer(&mut on).await;
    let acting = [("impersonate-user", "w")];
    let (code, answer) = explain_with(&mut on, "POST", PODS, &acting, &pod("web")).await;
    assert_eq!((code, &answer["kind"]), (403, &json!("Status")), "{answer}");
    // Whoever may not act as others cannot ask for them either.
    let mut connection = on.site.connect(Some(("w", &[]))).await;
    std::mem::swap(&mut connection, &mut on.connection);
    let acting = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")];
    let (code, answer) = explain_with(&mut on, "POST", PODS, &acting, &pod("web")).await;
    assert_eq!((code, &answer["kind"]), (403, &json!("Status")), "{answer}");
}

#[tokio::test]
async fn only_dry_runs_of_writes_of_objects_are_explained() {
    let mut on = Setting::start().await;
    let header = [("xebec-explain", "admission"), ("content-type", "application/json")];
    let cases = [
        ("POST", MAPS.to_owned(), "add dryRun=All"),
        ("GET", format!("{MAPS}?dryRun=All"), "cannot be explained"),
        ("DELETE", format!("{MAPS}?dryRun=All"), "cannot be explained"),
        ("POST", format!("{PODS}/web/eviction?dryRun=All"), "writes of \"eviction\""),
    ];
    for (method, path, expected) in cases {
        let (head, body) = on.connection.send(method, &path, &header, &pod("web")).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        let text = text.replace("\\\"", "\"");
        assert_eq!(head.status.as_u16(), 400, "{method} {path}: {text}");
        assert!(text.contains(expected), "{method} {path}: {text}");
    }
}
