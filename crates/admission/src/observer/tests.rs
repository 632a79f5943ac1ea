//! What differs, and what whoever may not read a policy is told.

use serde_json::json;

use super::{By, Expression, NO_RIGHT, Observer, Part, Refusal, Report, Step, Verdict, diff};

fn check(before: &serde_json::Value, after: &serde_json::Value, expected: &[&str]) {
    let (changes, n_left_out) = diff(before, after);
    let text = |it: &Option<serde_json::Value>| {
        it.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
    };
    let shown: Vec<String> = changes
        .iter()
        .map(|it| format!("{}: {} -> {}", it.path, text(&it.before), text(&it.after)))
        .collect();
    assert_eq!(shown, expected);
    assert_eq!(n_left_out, 0);
}

#[test]
fn a_change_is_told_at_the_deepest_field() {
    let before = json!({"spec": {"a": 1, "b": {"c": "x"}}});
    check(&before, &before, &[]);
    let after = json!({"spec": {"a": 1, "b": {"c": "y", "d": [1]}}});
    check(&before, &after, &[r#"spec.b.c: "x" -> "y""#, "spec.b.d: nothing -> [1]"]);
    check(&after, &before, &[r#"spec.b.c: "y" -> "x""#, "spec.b.d: [1] -> nothing"]);
}

#[test]
fn keys_that_are_no_words_are_quoted() {
    let after = json!({"metadata": {"labels": {"example.com/a": "b"}}});
    let before = json!({"metadata": {"labels": {}}});
    check(&before, &after, &[r#"metadata.labels["example.com/a"]: nothing -> "b""#]);
}

#[test]
fn what_is_put_into_a_list_leaves_the_rest_alone() {
    check(&json!(["a", "b"]), &json!(["a", "x", "b"]), &[r#"[1]: nothing -> "x""#]);
    check(&json!(["a", "b"]), &json!(["b"]), &[r#"[0]: "a" -> nothing"#]);
    check(&json!([{"n": 1}, {"n": 2}]), &json!([{"n": 1}, {"n": 3}]), &["[1].n: 2 -> 3"]);
    check(&json!([1]), &json!([2, 3]), &["[0]: 1 -> 2", "[1]: nothing -> 3"]);
}

#[test]
fn changes_are_bounded_and_the_rest_is_counted() {
    let many: Vec<i32> = (0..1_000).collect();
    let (changes, n_left_out) = diff(&json!({"a": []}), &json!({"a": many}));
    assert_eq!((changes.len(), n_left_out), (200, 800));
}

#[test]
fn parts_beyond_the_bound_are_counted() {
    let observer = Observer::default();
    observer.begin("CREATE");
    (0..1_001).for_each(|_| observer.part(policy(None)));
    assert_eq!(observer.report(None).n_parts_left_out, 1);
}

fn policy(refusal: Option<Refusal>) -> Part {
    let by = By::Policy {
        resource: "validatingadmissionpolicies".to_owned(),
        name: "secret-name".to_owned(),
        binding: "secret-binding".to_owned(),
        param: Some("ns/secret-param".to_owned()),
    };
    let mut part = Part::new(by, 5);
    part.cost = Some(7);
    part.expressions = vec![Expression {
        field: "spec.validations[0].expression".to_owned(),
        text: "secret-text".to_owned(),
        cost: 7,
        message: Some("secret-message".to_owned()),
    }];
    part.annotations = [("p/a".to_owned(), "secret-note".to_owned())].into();
    part.note = Some("secret-why".to_owned());
    part.refusal = refusal;
    part
}

fn redacted(part: Part) -> String {
    let step = Step { parts: vec![part], ..Step::default() };
    let mut report = Report::new("CREATE", vec![step], 0, None);
    report.redact(|_| false);
    serde_json::to_string(&report).unwrap()
}

#[test]
fn who_may_not_read_a_policy_learns_nothing_of_it() {
    let text = redacted(policy(None));
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains(NO_RIGHT), "{text}");
}

#[test]
fn a_refusal_tells_what_it_would_tell_anybody() {
    let message = "ValidatingAdmissionPolicy 'secret-name' denied".to_owned();
    let text = redacted(policy(Some(Refusal { code: 422, reason: String::new(), message })));
    assert!(text.contains("secret-name") && text.contains("secret-binding"), "{text}");
    for hidden in ["secret-text", "secret-message", "secret-note", "secret-param", "secret-why"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

#[test]
fn the_configuration_of_a_webhook_is_hidden_and_its_name_unless_it_refuses() {
    let webhook = || {
        let by = By::Webhook {
            resource: "validatingwebhookconfigurations".to_owned(),
            configuration: "secret-configuration".to_owned(),
            name: "secret-hook".to_owned(),
        };
        Part::new(by, 5)
    };
    assert!(!redacted(webhook()).contains("secret"));
    let mut refusing = webhook();
    let message = "admission webhook \"secret-hook\" denied the request".to_owned();
    refusing.refusal = Some(Refusal { code: 400, reason: String::new(), message });
    let text = redacted(refusing);
    assert!(text.contains("secret-hook") && !text.contains("secret-configuration"), "{text}");
}

#[test]
fn nobody_can_tell_what_a_webhook_says_that_is_not_asked() {
    let mut part = policy(None);
    part.is_unasked = true;
    let step = Step { parts: vec![part], ..Step::default() };
    assert_eq!(Report::new("CREATE", vec![step], 0, None).verdict, Verdict::Unknown);
}
