//! The text of `/stats/summary`: upstream's `Summary` (k8s.io/kubelet/pkg/apis/stats/v1alpha1),
//! with one field more: over how many seconds CPU was measured. Pure.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{ContainerUsed, PodUsed, Reading, Used};

pub(super) fn render(reading: &Reading) -> Vec<u8> {
    let mut node = Map::new();
    node.insert("nodeName".to_owned(), json!(reading.node_name));
    if let Ok(used) = &reading.node {
        node.insert("cpu".to_owned(), cpu(used));
        let available = reading.memory_capacity.checked_sub(used.usage.memory_working_set);
        node.insert("memory".to_owned(), memory(used, available));
        if let Some(swap) = swap(used) {
            node.insert("swap".to_owned(), swap);
        }
    }
    let pods: Vec<Value> = reading.pods.iter().filter_map(pod).collect();
    json!({"node": node, "pods": pods}).to_string().into_bytes()
}

/// Absent if nothing of it runs.
fn pod(used: &PodUsed) -> Option<Value> {
    if used.whole.is_none() && used.containers.is_empty() {
        return None;
    }
    let (meta, status) = (&used.pod.metadata, used.pod.status.as_ref());
    let mut pod = Map::new();
    pod.insert(
        "podRef".to_owned(),
        json!({"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}),
    );
    let started = status.and_then(|it| it.start_time.as_ref()).map(|it| it.0);
    pod.insert("startTime".to_owned(), time_or_null(started));
    let containers: Vec<Value> = used.containers.iter().map(container).collect();
    pod.insert("containers".to_owned(), Value::Array(containers));
    if let Some((whole, stats)) = &used.whole {
        pod.insert("cpu".to_owned(), cpu(whole));
        pod.insert("memory".to_owned(), memory(whole, None));
        if let Some(swap) = swap(whole) {
            pod.insert("swap".to_owned(), swap);
        }
        pod.insert("process_stats".to_owned(), json!({"process_count": stats.n_processes}));
        let interfaces: Vec<Value> = stats.interfaces.iter().map(interface).collect();
        if let Some(first) = interfaces.first().and_then(Value::as_object) {
            let mut network = first.clone();
            network.insert("time".to_owned(), json!(whole.at.to_string()));
            network.insert("interfaces".to_owned(), Value::Array(interfaces));
            pod.insert("network".to_owned(), Value::Object(network));
        }
    }
    Some(Value::Object(pod))
}

fn interface(it: &node_api::sandboxes::InterfaceUsage) -> Value {
    json!({
        "name": it.name,
        "rxBytes": it.received.bytes,
        "rxErrors": it.received.errors,
        "txBytes": it.sent.bytes,
        "txErrors": it.sent.errors,
    })
}

fn container(used: &ContainerUsed) -> Value {
    let at = used.used.at.to_string();
    let mut container = Map::new();
    container.insert("name".to_owned(), json!(used.name));
    container.insert("startTime".to_owned(), time_or_null(used.started));
    container.insert("cpu".to_owned(), cpu(&used.used));
    container.insert("memory".to_owned(), memory(&used.used, None));
    if let Some(layer) = &used.stats.writable_layer {
        let rootfs =
            json!({"time": at, "usedBytes": layer.used_bytes, "inodesUsed": layer.inodes_used});
        container.insert("rootfs".to_owned(), rootfs);
    }
    if let Some(bytes) = used.log_bytes {
        container.insert("logs".to_owned(), json!({"time": at, "usedBytes": bytes}));
    }
    if let Some(swap) = swap(&used.used) {
        container.insert("swap".to_owned(), swap);
    }
    Value::Object(container)
}

fn cpu(used: &Used) -> Value {
    let nanos = u64::try_from(used.usage.cpu.as_nanos()).unwrap_or(u64::MAX);
    let mut cpu = json!({"time": used.at.to_string(), "usageCoreNanoSeconds": nanos});
    if let Some(rate) = used.rate {
        cpu["usageNanoCores"] = json!(rate.nano_cores);
        cpu["usageWindowSeconds"] = json!(rate.window.as_secs_f64());
    }
    cpu
}

fn memory(used: &Used, available: Option<u64>) -> Value {
    let usage = &used.usage;
    let mut memory = json!({
        "time": used.at.to_string(),
        "usageBytes": usage.memory_usage,
        "workingSetBytes": usage.memory_working_set,
        "rssBytes": usage.memory_rss,
        "pageFaults": usage.page_faults,
        "majorPageFaults": usage.major_page_faults,
    });
    if let Some(available) = available {
        memory["availableBytes"] = json!(available);
    }
    memory
}

fn swap(used: &Used) -> Option<Value> {
    let swap = used.usage.swap?;
    Some(json!({"time": used.at.to_string(), "swapUsageBytes": swap}))
}

fn time_or_null(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |it| json!(it.to_string()))
}
