//! Who the server is to those whom it asks, by `--admission-control-config-file`; and images, which
//! it asks about as the user of a kubeconfig.

use std::path::Path;

use admission::{Configuration, Selection};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::server::Webhook;
use super::{MAPS, PODS, Setting, named};

/// Files of a folder, of which `a.yaml` is the list of plugins.
fn told(folder: &Path, files: &[(&str, &Value)]) -> Configuration {
    for (name, value) in files {
        std::fs::write(folder.join(name), value.to_string()).expect("a file");
    }
    Configuration::load(&folder.join("a.yaml"), |path| std::fs::read_to_string(path))
        .expect("a configuration")
}

fn list(plugins: &Value) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": plugins,
    })
}

#[tokio::test]
async fn a_webhook_is_asked_as_the_user_of_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let mut on = Setting::start_told(|webhook| {
        let own = |name: &str| {
            json!({
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": path.join(name),
            })
        };
        let plugins = list(&json!([
            {"name": "MutatingAdmissionWebhook", "configuration": own("m")},
            {"name": "ValidatingAdmissionWebhook", "configuration": own("v")},
        ]));
        let here = format!("localhost:{}", webhook.address().1);
        let mutating = json!({"users": [
            {"name": here, "user": {"token": "mutating"}}, {"name": "*", "user": {"token": "all"}},
        ]});
        let validating = json!({"users": [
            {"name": "elsewhere.example.com", "user": {"token": "other"}},
            {"name": "*", "user": {"username": "me", "password": "secret"}},
        ]});
        let files = [("a.yaml", &plugins), ("m", &mutating), ("v", &validating)];
        (Selection::default(), told(path, &files))
    })
    .await;
    let hook = on.webhook.hook("allow");
    on.configure("mutating", "m", std::slice::from_ref(&hook)).await;
    on.configure("validating", "v", &[hook]).await;
    on.create(MAPS, &named("m")).await;
    let asked = on.webhook.take_all();
    let shown: Vec<&Value> = asked.iter().map(|it| &it.1["authorization"]).collect();
    assert_eq!(shown, ["Bearer mutating", "Basic bWU6c2VjcmV0"]);
}

fn images(path: &Path, webhook: &Webhook, default_allow: bool) -> (Selection, Configuration) {
    let (authority, port) = webhook.address();
    let plugins = list(&json!([{"name": "ImagePolicyWebhook", "path": "p.yaml"}]));
    let policy = json!({"imagePolicy": {
        "kubeConfigFile": path.join("k"), "retryBackoff": 1, "defaultAllow": default_allow,
    }});
    let cluster = json!({
        "server": format!("https://localhost:{port}/images"),
        "certificate-authority-data": STANDARD.encode(authority),
    });
    let kubeconfig = json!({
        "current-context": "c", "clusters": [{"name": "k", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "images"}}],
    });
    let files = [("a.yaml", &plugins), ("p.yaml", &policy), ("k", &kubeconfig)];
    let selection = Selection::new(&["ImagePolicyWebhook".to_owned()], &[]).expect("a plugin");
    (selection, told(path, &files))
}

fn pod(image: &str) -> Value {
    json!({
        "metadata": {"generateName": "p-", "annotations": {"x.image-policy.k8s.io/y": "z"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

#[tokio::test]
async fn images_are_run_if_somebody_outside_agrees() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut on = Setting::start_told(|webhook| images(folder.path(), webhook, false)).await;
    for _ in 0..3 {
        on.create(PODS, &pod("good")).await;
    }
    let asked = on.webhook.take_all();
    let question = json!({
        "containers": [{"image": "good"}], "namespace": "default",
        "annotations": {"x.image-policy.k8s.io/y": "z"}, "authorization": "Bearer images",
    });
    assert_eq!(asked, [("images".to_owned(), question)], "the answer is remembered");
    for _ in 0..2 {
        let (code, answer) = on.connection.call("POST", PODS, &pod("bad")).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let why = "is forbidden: image policy webhook backend denied one or more images: too old";
        assert!(code == 403 && message.ends_with(why), "{answer}");
    }
    assert_eq!(on.webhook.take().len(), 1, "so is a refusal");
    // Who is broken is asked five times, and nothing is remembered.
    let (code, answer) = on.connection.call("POST", PODS, &pod("odd")).await;
    let message = answer["message"].as_str().unwrap_or_default();
    let why = "an error on the server (\"oh no\") has prevented the request from succeeding";
    assert!(code == 403 && message.ends_with(why), "{answer}");
    assert_eq!(on.webhook.take().len(), 5);
    // Of other kinds, and below pods, nobody is asked.
    on.create(MAPS, &named("m")).await;
    assert!(on.webhook.take().is_empty());
}

#[tokio::test]
async fn images_that_nobody_judges_are_run_where_that_is_the_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut on = Setting::start_told(|webhook| images(folder.path(), webhook, true)).await;
    on.create(PODS, &pod("odd")).await;
    assert_eq!(on.webhook.take().len(), 5);
    let (code, answer) = on.connection.call("POST", PODS, &pod("bad")).await;
    assert_eq!(code, 403, "a refusal is one: {answer}");
}
