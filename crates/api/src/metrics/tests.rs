//! What is measured, as clients see it.

use apimachinery::quantity::Amount;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{Interval, Usage, kinds, node_metrics, pod_metrics};

fn meta() -> ObjectMeta {
    ObjectMeta {
        name: Some("web".to_owned()),
        namespace: Some("default".to_owned()),
        labels: Some([("app".to_owned(), "web".to_owned())].into()),
        uid: Some("u".to_owned()),
        ..ObjectMeta::default()
    }
}

fn interval() -> Interval {
    Interval { end: Timestamp::from_millisecond(1_000_000_000_500).unwrap(), seconds: 15.0004 }
}

#[test]
fn kinds_are_read_only_and_kept_nowhere() {
    let kinds = kinds();
    let names: Vec<_> = kinds.iter().map(|it| it.names().plural.as_str()).collect();
    assert_eq!(names, ["nodes", "pods"]);
    for kind in &kinds {
        assert_eq!(kind.verbs(), ["get", "list"]);
        assert_eq!((kind.registry_prefix(), kind.storage_version_hash()), Default::default());
        assert!(!kind.is_custom(), "no definition can change it");
    }
}

#[test]
fn usage_is_written_as_metrics_server_writes_it() {
    let usage = |cpu: &str, memory: &str| Usage {
        cpu: Amount::parse(cpu).unwrap(),
        memory: Amount::parse(memory).unwrap(),
    };
    let containers =
        [("a".to_owned(), usage("1234567n", "2048Ki")), ("b".to_owned(), usage("2", "1Mi"))];
    let pod = pod_metrics(&meta(), interval(), &containers);
    let tree: Value = serde_json::from_slice(&pod.bytes).unwrap();
    assert_eq!(
        tree,
        json!({
            "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {
                "name": "web", "namespace": "default", "labels": {"app": "web"},
                "creationTimestamp": "2001-09-09T01:46:40Z",
            },
            "timestamp": "2001-09-09T01:46:40Z", "window": "15s",
            "containers": [
                {"name": "a", "usage": {"cpu": "1234567n", "memory": "2Mi"}},
                {"name": "b", "usage": {"cpu": "2", "memory": "1Mi"}},
            ],
        })
    );
    let row = |kind: &str, bytes: &[u8]| {
        let kinds = kinds();
        let kind = kinds.iter().find(|it| it.names().kind == kind).unwrap();
        let object = kind.decode(bytes).unwrap();
        json!(kind.row(object.as_ref(), Timestamp::UNIX_EPOCH))
    };
    assert_eq!(row("PodMetrics", &pod.bytes), json!(["web", "2001234567n", "3Mi", "15s"]));
    let node = node_metrics(&meta(), interval(), usage("250m", "1Gi"));
    assert_eq!(row("NodeMetrics", &node.bytes), json!(["web", "250m", "1Gi", "15s"]));
    assert_eq!(row("NodeMetrics", b"{\"metadata\":{\"name\":\"x\"}}")[1], "0");
}

#[test]
fn simulated_usage_is_read_from_words() {
    let check = |text: &str, cpu: i64, memory: i64| {
        let usage = Usage::parse(text);
        assert_eq!((usage.cpu.millis(), usage.memory.value()), (cpu, memory), "{text}");
    };
    check("cpu=250m memory=1Ki", 250, 1024);
    check("cpu=2", 2000, 0);
    check("cpu=-1 memory=x nonsense", 0, 0);
    check("", 0, 0);
}
