//! What the kubelet counts while a pod runs.

use serde_json::json;

use crate::setup::{IMAGE, Setup, is_ready, run};

#[test]
fn a_pod_is_seen_in_the_metrics() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        setup.until_status("web", is_ready).await;
        let value = |series: &str| {
            let page = setup.metrics.render();
            let line = page.lines().find_map(|it| it.strip_prefix(series)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse::<f64>().unwrap()
        };
        let operation = |name: &str, what: &str| {
            value(&format!("kubelet_runtime_operations_{what}{{operation_type=\"{name}\"}}"))
        };
        assert_eq!(value("kubelet_node_name{node=\"n1\"}"), 1.0);
        assert_eq!(value("kubelet_running_pods"), 1.0);
        assert_eq!(value("kubelet_running_containers{container_state=\"running\"}"), 1.0);
        assert_eq!(value("kubelet_pod_start_duration_seconds_count"), 1.0);
        let created = "kubelet_pod_worker_duration_seconds_count{operation_type=\"create\"}";
        assert_eq!(value(created), 1.0);
        for name in ["run_podsandbox", "create_container", "start_container"] {
            assert_eq!(operation(name, "total"), 1.0);
            assert_eq!(operation(name, "duration_seconds_count"), 1.0);
        }
        setup.delete("web", None).await;
        setup.until_gone("web").await;
        assert_eq!(operation("stop_container", "total"), 1.0);
        assert_eq!(value("kubelet_running_containers{container_state=\"running\"}"), 0.0);
    });
}
