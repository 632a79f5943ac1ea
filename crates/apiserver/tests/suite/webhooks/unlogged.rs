//! What is asked and answered is between the server, the webhook and whoever made the request: the
//! log has none of it, at any verbosity.

use serde_json::{Value, json};

use super::server::CANARY;
use super::{MAPS, Setting, with};

/// In the object that webhooks are asked about.
const ASKED: &str = "a-word-of-the-object";

#[tokio::test]
async fn what_is_asked_and_answered_is_not_in_the_log() {
    let lines = crate::harness::logs();
    let mut on = Setting::start().await;
    let map = json!({"metadata": {"generateName": "a-"}, "data": {"k": ASKED}});
    for (path, is_told) in [
        ("allow", false),
        ("shout", true),
        ("odd", true),
        ("deny-aloud", true),
        ("scribble", true),
        ("mumble", false),
        ("hang", false),
    ] {
        for (kind, policy) in [("mutating", "Fail"), ("mutating", "Ignore"), ("validating", "Fail")]
        {
            let hook = with(on.webhook.hook(path), "failurePolicy", json!(policy));
            let hook = with(hook, "timeoutSeconds", json!(1));
            on.configure(kind, "only", &[hook]).await;
            let (code, answer) = on.connection.call("POST", MAPS, &map).await;
            on.unconfigure_quietly().await;
            let is_about_patches = matches!(path, "scribble" | "mumble") && kind == "validating";
            if is_told && policy == "Fail" && !is_about_patches {
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(code >= 400 && message.contains(CANARY), "{path} {kind}: {answer}");
            }
        }
    }
    let text = lines.text();
    for word in [ASKED, CANARY] {
        let line = text.lines().find(|it| it.contains(word));
        assert_eq!(line, None, "{word}");
    }
    // What is logged says who and why all the same.
    for said in [
        "failed calling webhook \\\"shout.example.com\\\": failed to call webhook: the server responded with the status code 500",
        "failed calling webhook \\\"mumble.example.com\\\": its answer cannot be used",
    ] {
        assert!(text.contains(said) || text.contains(&said.replace('\\', "")), "{said}");
    }
}

/// Nor does the log have what a webhook says of its own pods.
#[tokio::test]
async fn what_keeps_its_own_pods_away_is_an_event_and_no_line() {
    let lines = crate::harness::logs();
    let mut on = Setting::start().await;
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "selector": {"app": "hook"}},
    });
    on.create("/api/v1/namespaces/default/services", &service).await;
    let hook = on.own_hook("deny-aloud", super::rule(&["CREATE"], "", "v1", "pods"));
    on.configure("validating", "aloud", &[hook]).await;
    let pod = json!({
        "metadata": {"name": "hook", "labels": {"app": "hook"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let (code, _) = on.connection.call("POST", super::PODS, &pod).await;
    assert_eq!(code, 400);
    let found: Vec<Value> = super::failures::events_of(&mut on, "aloud").await;
    let message = found[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains(CANARY), "{message}");
    let text = lines.text();
    assert!(text.contains("keeps its own pods from being created"));
    assert!(!text.contains(CANARY));
}
