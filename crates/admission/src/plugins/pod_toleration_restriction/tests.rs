//! Namespaces, settings and pods in, tolerations or refusals out.

use std::path::Path;

use serde_json::{Value, json};

use super::PodTolerationRestriction;
use crate::configuration::Configuration;
use crate::plugins::fixture::{Objects, create_pod};

fn list(name: &str, effect: &str) -> Value {
    json!({"key": name, "operator": "Exists", "effect": effect})
}

fn made(settings: Value, annotations: Value, spec: Value) -> Result<Value, String> {
    let mut file = json!({
        "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
    });
    file.as_object_mut().unwrap().extend(settings.as_object().cloned().unwrap());
    let text = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodTolerationRestriction", "configuration": file}],
    });
    let files = Configuration::load(Path::new("/a"), move |_| Ok(text.to_string())).unwrap();
    let plugin =
        PodTolerationRestriction::new(&files).map_err(|it| stdx::error_chain(&it).to_string())?;
    let namespace = json!({"metadata": {"name": "ns", "annotations": annotations}});
    let objects = Objects::default().with("namespaces", &namespace);
    let made = create_pod(plugin, objects, &spec);
    made.map(|it| it["tolerations"].clone()).map_err(|err| err.message().to_owned())
}

#[test]
fn pods_get_what_their_namespace_has_for_them_or_else_the_cluster() {
    let (a, b) = (list("a", "NoSchedule"), list("b", "NoSchedule"));
    let bare = || json!({"containers": []});
    let cluster = || json!({"default": [a]});
    assert_eq!(made(cluster(), json!(null), bare()).unwrap(), json!([a]));
    let annotations =
        |text: String| json!({"scheduler.alpha.kubernetes.io/defaultTolerations": text});
    assert_eq!(made(cluster(), annotations(json!([b]).to_string()), bare()).unwrap(), json!([b]));
    assert_eq!(made(cluster(), annotations(String::new()), bare()).unwrap(), Value::Null);
    let own = json!({"containers": [], "tolerations": [b]});
    assert_eq!(made(cluster(), json!(null), own).unwrap(), json!([b, a]));
    let promised = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    assert_eq!(
        made(json!({}), json!(null), promised).unwrap(),
        json!([list("node.kubernetes.io/memory-pressure", "NoSchedule")])
    );
    assert!(made(cluster(), annotations("{".to_owned()), bare()).is_err());
}

#[test]
fn nobody_has_more_than_is_listed() {
    let (a, b) = (list("a", "NoSchedule"), list("b", "NoSchedule"));
    let having = |it: &Value| json!({"containers": [], "tolerations": [it]});
    let text = |whose: &str| {
        format!(
            "pods \"web\" is forbidden: pod tolerations (possibly merged with namespace default tolerations) conflict with its {whose} whitelist"
        )
    };
    let cluster = || json!({"whitelist": [a]});
    assert!(made(cluster(), json!(null), having(&a)).is_ok());
    assert_eq!(made(cluster(), json!(null), having(&b)).unwrap_err(), text("cluster"));
    let key = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
    let own = || json!({key: json!([b]).to_string()});
    assert!(made(cluster(), own(), having(&b)).is_ok());
    assert_eq!(made(cluster(), own(), having(&a)).unwrap_err(), text("namespace"));
    // An empty list is one that allows everything.
    assert!(made(cluster(), json!({key: ""}), having(&b)).is_ok());
}

#[test]
fn settings_are_checked() {
    let bad = json!({"default": [{"key": "a b", "operator": "Exists"}]});
    let why = made(bad, json!(null), json!({"containers": []})).unwrap_err();
    assert!(why.contains("default[0].key: Invalid value"), "{why}");
}
