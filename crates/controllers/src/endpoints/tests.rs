//! Pods of a Service in, subsets out.

use std::sync::Arc;

use api::core::endpoints::Endpoints;
use api::core::pod::{Pod, PodView};
use api::core::service::Service;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::{Action, Observed, plan};

fn service(options: &str) -> Arc<Service> {
    let publishes = options.contains("publish");
    let target = if options.contains("named") { json!("http") } else { json!(8080) };
    let service = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "clusterIP": if options.contains("headless") { "None" } else { "10.0.0.9" },
            "publishNotReadyAddresses": publishes,
            "ipFamilies": if options.contains("ipv6") { ["IPv6", "IPv4"] } else { ["IPv4", "IPv6"] },
            "ports": [{"name": "web", "port": 80, "targetPort": target}],
        },
    });
    Arc::new(serde_json::from_value(service).unwrap())
}

/// `name ip[,ip] [ready] [deleting] [Phase] [port=n]`
fn pod(text: &str) -> Arc<PodView> {
    let words: Vec<&str> = text.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let phase = if has("Failed") { "Failed" } else { "Running" };
    let port: Vec<i32> =
        words.iter().filter_map(|it| it.strip_prefix("port=")?.parse().ok()).collect();
    let ports: Vec<_> =
        port.iter().map(|it| json!({"name": "http", "containerPort": it})).collect();
    let mut pod = json!({
        "metadata": {"name": words[0], "namespace": "default", "uid": words[0]},
        "spec": {"containers": [{"name": "c", "ports": ports}], "nodeName": "n"},
        "status": {
            "phase": phase,
            "podIPs": words[1].split(',').map(|it| json!({"ip": it})).collect::<Vec<_>>(),
            "conditions": [{"type": "Ready", "status": if has("ready") { "True" } else { "False" }}],
        },
    });
    if has("deleting") {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
}

fn render(action: Option<&Action>) -> String {
    let Some(Action::Create(endpoints) | Action::Update(endpoints)) = action else {
        return "nothing".to_owned();
    };
    let subsets = endpoints.subsets.iter().flatten().map(|it| {
        let ips = |list: &Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| -> String {
            list.iter().flatten().map(|it| it.ip.clone()).collect::<Vec<_>>().join(",")
        };
        let ports: Vec<String> = it.ports.iter().flatten().map(|it| it.port.to_string()).collect();
        format!("{}|{}:{}", ips(&it.addresses), ips(&it.not_ready_addresses), ports.join(","))
    });
    subsets.collect::<Vec<_>>().join(" ")
}

fn observed(options: &str, pods: &[&str]) -> Observed {
    let pods = pods.iter().map(|it| pod(it)).collect();
    Observed { service: service(options), pods, endpoints: None, trigger: None }
}

fn check(options: &str, pods: &[&str], expected: &str) {
    assert_eq!(render(plan(&observed(options, pods)).as_ref()), expected);
}

#[test]
fn ready_pods_are_addresses_and_others_wait() {
    check("", &["a 10.1.0.1 ready", "b 10.1.0.2"], "10.1.0.1|10.1.0.2:8080");
    check("", &["a 10.1.0.1 ready deleting", "b 10.1.0.2 Failed"], "");
    check("publish", &["a 10.1.0.1", "b 10.1.0.2 deleting"], "10.1.0.1,10.1.0.2|:8080");
}

#[test]
fn addresses_are_of_the_first_family() {
    let pods = ["a 10.1.0.1,fd01::1 ready", "b 10.1.0.2 ready"];
    check("", &pods, "10.1.0.1,10.1.0.2|:8080");
    check("ipv6", &pods, "fd01::1|:8080");
    check("ipv6 headless", &pods, "fd01::1|:8080");
}

#[test]
fn named_ports_are_looked_up_in_each_pod() {
    let pods = ["a 10.1.0.1 ready port=1", "b 10.1.0.2 ready port=2", "c 10.1.0.3 ready"];
    check("named", &pods, "10.1.0.1|:1 10.1.0.2|:2");
}

#[test]
fn what_is_written_says_when_the_change_happened_and_nothing_is_written_for_that() {
    let trigger = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let first = Observed { trigger, ..observed("", &["a 10.1.0.1 ready"]) };
    let Some(Action::Create(made)) = plan(&first) else { panic!("created") };
    let annotations = made.metadata.annotations.clone().unwrap();
    assert_eq!(
        annotations["endpoints.kubernetes.io/last-change-trigger-time"],
        "2026-01-01T00:00:00Z"
    );
    let made = Some(Arc::new(*made));
    for trigger in [None, Some("2026-01-01T00:00:09Z".parse().unwrap())] {
        let same = observed("", &["a 10.1.0.1 ready"]);
        assert_eq!(plan(&Observed { endpoints: made.clone(), trigger, ..same }), None);
    }
    let changed = Observed { endpoints: made, ..observed("", &["a 10.1.0.1"]) };
    let Some(Action::Update(changed)) = plan(&changed) else { panic!("updated") };
    assert_eq!(changed.metadata.annotations, None);
}

proptest! {
    #[test]
    fn writing_once_is_enough(ready in prop::collection::vec(any::<bool>(), 0..12)) {
        let texts: Vec<String> = ready
            .iter()
            .enumerate()
            .map(|(n, it)| format!("p{n} 10.1.0.{n}{}", if *it { " ready" } else { "" }))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rested = converges(
            |endpoints: &Option<Arc<Endpoints>>| {
                let seen = Observed { endpoints: endpoints.clone(), ..observed("", &texts) };
                plan(&seen).into_iter().collect()
            },
            |endpoints, (Action::Create(it) | Action::Update(it))| *endpoints = Some(Arc::new(*it)),
            None,
            1,
        );
        prop_assert!(rested.unwrap().is_some(), "absent endpoints are created");
    }
}
