//! Readings in, rates and text out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::core::Pod;
use jiff::Timestamp;
use node_api::ContainerId;
use node_api::containers::{ContainerStats, FilesystemUsage, Usage};
use node_api::sandboxes::{InterfaceUsage, SandboxStats, Traffic};
use serde_json::{Value, json};

use super::rates::{Of, Rate, Rates};
use super::{ContainerUsed, PodUsed, Reading, Used, page, summary};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000_000_000 + millis).unwrap()
}

#[test]
fn a_rate_needs_two_readings_and_its_window_does_not_shrink() {
    let mut rates = Rates::default();
    let mut read = |millis: i64, cpu: u64| {
        let rate = rates.read(Of::Node, at(millis), Duration::from_millis(cpu));
        rate.map(|it| (it.nano_cores / 1_000_000, it.window.as_millis()))
    };
    assert_eq!(read(0, 1000), None);
    assert_eq!(read(100, 1050), None, "too short to say anything");
    assert_eq!(read(1000, 1500), Some((500, 1000)));
    assert_eq!(read(16_000, 9000), Some((500, 16_000)));
    assert_eq!(read(17_000, 10_000), Some((529, 17_000)), "since before");
    assert_eq!(read(31_000, 16_500), Some((500, 15_000)));
    assert_eq!(read(400_000, 20_000), None, "too long ago");
    assert_eq!(read(401_000, 21_000), Some((1000, 1000)));
    assert_eq!(read(402_000, 5), None, "another counter");
    assert_eq!(read(403_000, 5), Some((0, 1000)));
}

#[test]
fn what_does_not_run_is_forgotten() {
    let mut rates = Rates::default();
    let of = |name: &str| Of::Container(name.to_owned());
    rates.read(of("a"), at(0), Duration::ZERO);
    rates.read(of("b"), at(0), Duration::ZERO);
    rates.keep(&BTreeSet::from([of("b")]));
    assert!(rates.read(of("a"), at(1000), Duration::ZERO).is_none());
    assert!(rates.read(of("b"), at(1000), Duration::ZERO).is_some());
}

fn reading() -> Reading {
    let usage = Usage {
        cpu: Duration::from_millis(2500),
        memory_working_set: 100,
        memory_usage: 150,
        memory_rss: 50,
        swap: None,
        page_faults: 3,
        major_page_faults: 1,
    };
    let rate = Some(Rate { nano_cores: 250_000_000, window: Duration::from_secs(10) });
    let used = Used { at: at(0), usage, rate };
    let pod = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    });
    let pod = Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap());
    let received = Traffic { bytes: 7, errors: 0 };
    let interface = InterfaceUsage { name: "eth0".to_owned(), received, sent: received };
    let whole = SandboxStats { at: at(0), usage, interfaces: vec![interface], n_processes: 2 };
    let layer = FilesystemUsage { used_bytes: 9, inodes_used: 1, ..FilesystemUsage::default() };
    let container = ContainerUsed {
        id: ContainerId::new("c"),
        name: "main".to_owned(),
        started: Some(at(-5000)),
        used: used.clone(),
        stats: ContainerStats { at: at(0), usage, writable_layer: Some(layer) },
        log_bytes: Some(11),
    };
    let ended = PodUsed { pod: pod.clone(), whole: None, containers: Vec::new() };
    Reading {
        node_name: "n1".to_owned(),
        memory_capacity: 1000,
        node: Ok(used.clone()),
        pods: vec![PodUsed { pod, whole: Some((used, whole)), containers: vec![container] }, ended],
        is_partial: false,
    }
}

#[test]
fn the_summary_is_upstreams() {
    let summary: Value = serde_json::from_slice(&summary::render(&reading())).unwrap();
    let time = "2001-09-09T01:46:40Z";
    let cpu = json!({
        "time": time, "usageCoreNanoSeconds": 2_500_000_000_u64, "usageNanoCores": 250_000_000,
        "usageWindowSeconds": 10.0,
    });
    let memory = json!({
        "time": time, "usageBytes": 150, "workingSetBytes": 100, "rssBytes": 50,
        "pageFaults": 3, "majorPageFaults": 1,
    });
    let mut of_node = memory.clone();
    of_node["availableBytes"] = json!(900);
    assert_eq!(summary["node"], json!({"nodeName": "n1", "cpu": cpu, "memory": of_node}));
    let pods = summary["pods"].as_array().unwrap();
    assert_eq!(pods.len(), 1, "what has ended uses nothing");
    let traffic = json!({"name": "eth0", "rxBytes": 7, "rxErrors": 0, "txBytes": 7, "txErrors": 0});
    let mut network = traffic.clone();
    network["time"] = json!(time);
    network["interfaces"] = json!([traffic]);
    assert_eq!(
        pods[0],
        json!({
            "podRef": {"name": "web", "namespace": "default", "uid": "u"},
            "startTime": "2026-01-01T00:00:00Z",
            "containers": [{
                "name": "main", "startTime": "2001-09-09T01:46:35Z", "cpu": cpu, "memory": memory,
                "rootfs": {"time": time, "usedBytes": 9, "inodesUsed": 1},
                "logs": {"time": time, "usedBytes": 11},
            }],
            "cpu": cpu, "memory": memory, "network": network,
            "process_stats": {"process_count": 2},
        })
    );
}

#[test]
fn the_page_is_upstreams() {
    let page = page::render(&reading());
    for line in [
        "# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds",
        "# TYPE container_cpu_usage_seconds_total counter",
        "container_cpu_usage_seconds_total{container=\"main\",namespace=\"default\",pod=\"web\"} 2.5 1000000000000",
        "container_memory_working_set_bytes{container=\"main\",namespace=\"default\",pod=\"web\"} 100 1000000000000",
        "container_start_time_seconds{container=\"main\",namespace=\"default\",pod=\"web\"} 999999995 1000000000000",
        "node_cpu_usage_seconds_total 2.5 1000000000000",
        "pod_memory_working_set_bytes{namespace=\"default\",pod=\"web\"} 100 1000000000000",
        "resource_scrape_error 0",
    ] {
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }
    assert!(!page.contains("swap"), "nobody counts it:\n{page}");
    let broken = Reading { is_partial: true, pods: Vec::new(), ..reading() };
    assert!(page::render(&broken).ends_with("resource_scrape_error 1\n"));
}
