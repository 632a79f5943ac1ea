//! What `/metrics` says of admission: how long it took, and what conditions came to.

use serde_json::{Value, json};

use super::{MAPS, Setting, named, with};

/// The page, with a line for each series.
async fn page(on: &mut Setting) -> Vec<String> {
    let (_, page) = on.connection.get("/metrics", "text/plain").await;
    page.as_str().unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What a series counts; 0 if there is none.
fn count(page: &[String], series: &str) -> u64 {
    let found = page.iter().find_map(|it| it.strip_prefix(series)?.strip_prefix(' '));
    found.map_or(0, |it| it.parse().expect("a number"))
}

#[tokio::test]
async fn each_phase_and_each_plugin_is_timed() {
    let mut on = Setting::start().await;
    let before = page(&mut on).await;
    on.create(MAPS, &named("m")).await;
    let after = page(&mut on).await;
    let more = |series: &str| count(&after, series) - count(&before, series);
    let step = |kind: &str, rejected: bool| {
        format!(
            r#"apiserver_admission_step_admission_duration_seconds_count{{operation="CREATE",rejected="{rejected}",type="{kind}"}}"#
        )
    };
    let plugin = |name: &str, kind: &str, rejected: bool| {
        format!(
            r#"apiserver_admission_controller_admission_duration_seconds_count{{name="{name}",operation="CREATE",rejected="{rejected}",type="{kind}"}}"#
        )
    };
    for kind in ["admit", "validate"] {
        // Others write meanwhile.
        assert!(more(&step(kind, false)) >= 1, "{kind}");
    }
    assert!(more(&plugin("NamespaceLifecycle", "admit", false)) >= 1);
    assert_eq!(count(&after, &plugin("ValidatingAdmissionWebhook", "validate", false)), 0);
    // A refusal is one of the plugin and of its phase, and the phases after it are not reached.
    let hook = on.webhook.hook("deny/no");
    on.configure("validating", "all", &[hook]).await;
    let (code, _) = on.connection.call("POST", MAPS, &named("n")).await;
    assert_eq!(code, 400);
    let hook = on.webhook.hook("deny/no");
    on.configure("mutating", "all", &[hook]).await;
    let (code, _) = on.connection.call("POST", MAPS, &named("n")).await;
    assert_eq!(code, 400);
    let page = page(&mut on).await;
    for series in [
        plugin("ValidatingAdmissionWebhook", "validate", true),
        plugin("MutatingAdmissionWebhook", "admit", true),
        step("admit", true),
        step("validate", true),
    ] {
        assert_eq!(count(&page, &series), 1, "{series}");
    }
    let bucket = r#"apiserver_admission_step_admission_duration_seconds_bucket{operation="CREATE",rejected="true",type="admit",le="2.5"}"#;
    assert_eq!(count(&page, bucket), 1);
    // The same, as quantiles.
    let name = "apiserver_admission_step_admission_duration_seconds_summary";
    let labels = r#"operation="CREATE",rejected="true",type="admit""#;
    assert_eq!(count(&page, &format!("{name}_count{{{labels}}}")), 1);
    for quantile in ["0.5", "0.9", "0.99"] {
        let series = format!("{name}{{{labels},quantile=\"{quantile}\"}} ");
        let found = page.iter().find_map(|it| it.strip_prefix(&series)?.parse::<f64>().ok());
        assert!(found.is_some_and(|it| it > 0.0), "{series} {found:?}");
    }
}

fn conditions(expressions: &[&str]) -> Value {
    let named = expressions.iter().enumerate();
    let all = named.map(|(index, it)| json!({"name": format!("c{index}"), "expression": it}));
    all.collect()
}

#[tokio::test]
async fn conditions_are_counted_and_timed() {
    let mut on = Setting::start().await;
    let broken = "object.data.missing == 'x'";
    let told = |it: Value, all: &[&str]| with(it, "matchConditions", conditions(all));
    // Excluded; asked; an error that decides; one that another condition overrides.
    for (all, code) in [
        (&["false"][..], 201),
        (&["true"], 201),
        (&[broken, broken], 403),
        (&[broken, "false", broken], 201),
    ] {
        let hook = told(on.webhook.hook("allow"), all);
        assert_eq!(on.ask_one("validating", hook).await.0, code, "{all:?}");
    }
    assert_eq!(on.webhook.take(), ["allow"]);
    let hook = with(told(on.webhook.hook("allow"), &[broken]), "failurePolicy", json!("Ignore"));
    assert_eq!(on.ask_one("mutating", hook).await.0, 201);
    // Of policies no exclusions are counted, and both kinds have the same type.
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({"metadata": {"name": "narrow"}, "spec": {
        "matchConstraints": {"resourceRules": [super::rule(&["*"], "", "v1", "configmaps")]},
        "matchConditions": conditions(&[broken, "false"]),
        "validations": [{"expression": "false"}],
    }});
    on.create(policies, &policy).await;
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let spec = json!({"policyName": "narrow", "validationActions": ["Deny"]});
    on.create(bindings, &json!({"metadata": {"name": "narrow"}, "spec": spec})).await;
    on.create(MAPS, &named("judged")).await;

    let page = page(&mut on).await;
    let series = |what: &str, (name, kind, phase): (&str, &str, &str)| {
        let name = format!(
            r#"apiserver_admission_match_condition_{what}{{kind="{kind}",name="{name}",operation="CREATE",type="{phase}"}}"#
        );
        count(&page, &name)
    };
    let validating = ("allow.example.com", "webhook", "validating");
    assert_eq!(series("evaluation_seconds_count", validating), 4);
    assert_eq!(series("evaluation_errors_total", validating), 3);
    assert_eq!(series("exclusions_total", validating), 2);
    let mutating = ("allow.example.com", "webhook", "admit");
    assert_eq!(series("evaluation_seconds_count", mutating), 1);
    assert_eq!(series("evaluation_errors_total", mutating), 1);
    assert_eq!(series("exclusions_total", mutating), 1);
    let policy = ("narrow", "policy", "validate");
    assert!(series("evaluation_seconds_count", policy) >= 1);
    assert!(series("evaluation_errors_total", policy) >= 1);
    assert_eq!(series("exclusions_total", policy), 0);
}
