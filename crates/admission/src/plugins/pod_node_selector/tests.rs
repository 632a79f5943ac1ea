//! Namespaces, settings and pods in, selectors or refusals out.

use std::path::Path;

use serde_json::{Value, json};

use super::PodNodeSelector;
use super::settings::parse;
use crate::configuration::Configuration;
use crate::plugins::fixture::{Objects, create_pod};

const FILE: &str = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: pool=all\n  \
                    ns: pool=all,zone=a,zone2=b\n";

fn selected(file: &str, annotation: Option<&str>, own: &Value) -> Result<Value, String> {
    let file = file.to_owned();
    let files = Configuration::load(Path::new("/a"), move |_| Ok(file.clone())).unwrap();
    let annotations =
        annotation.map(|it| json!({"scheduler.alpha.kubernetes.io/node-selector": it}));
    let namespace = json!({"metadata": {"name": "ns", "annotations": annotations}});
    let objects = Objects::default().with("namespaces", &namespace);
    let spec = json!({"containers": [], "nodeSelector": own});
    let made = create_pod(PodNodeSelector::new(&files).unwrap(), objects, &spec);
    made.map(|it| it["nodeSelector"].clone()).map_err(|err| err.message().to_owned())
}

#[test]
fn pods_run_where_their_namespace_is() {
    let all = json!({"pool": "all"});
    assert_eq!(selected(FILE, None, &json!(null)).unwrap(), all);
    let both = json!({"pool": "all", "zone": "a"});
    assert_eq!(selected(FILE, None, &json!({"zone": "a"})).unwrap(), both);
    assert_eq!(selected(FILE, Some("zone2=b"), &json!(null)).unwrap(), json!({"zone2": "b"}));
    let none = "podNodeSelectorPluginConfig: {}";
    assert_eq!(selected(none, None, &json!({"zone": "z"})).unwrap(), json!({"zone": "z"}));
}

#[test]
fn who_wants_to_be_elsewhere_is_refused() {
    let refused = "pods \"web\" is forbidden: ";
    assert_eq!(
        selected(FILE, None, &json!({"pool": "mine"})).unwrap_err(),
        format!(
            "{refused}pod node label selector conflicts with its namespace node label selector"
        )
    );
    let whitelist = "pod node label selector labels conflict with its namespace whitelist";
    assert_eq!(
        selected(FILE, None, &json!({"zone": "b"})).unwrap_err(),
        format!("{refused}{whitelist}")
    );
    assert_eq!(
        selected(FILE, Some("disk=fast"), &json!(null)).unwrap_err(),
        format!("{refused}{whitelist}")
    );
    assert_eq!(
        selected(FILE, Some("disk"), &json!(null)).unwrap_err(),
        format!("{refused}invalid selector: disk")
    );
}

#[test]
fn a_selector_is_pairs() {
    let pairs = |text: &str| parse(text).map(|it| it.into_iter().collect::<Vec<_>>());
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(pairs(""), Ok(vec![]));
    assert_eq!(pairs(" a = b ,c="), Ok(vec![pair("a", "b"), pair("c", "")]));
    assert!(pairs("a=b=c").is_err() && pairs("a b=c").is_err() && pairs("a=b,").is_err());
}
