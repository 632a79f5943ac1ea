//! What a kubelet says that its node and pods use, as far as it counts here. Pure.

use std::collections::BTreeMap;

use api::metrics::{Interval, Usage};
use apimachinery::quantity::Amount;
use jiff::Timestamp;
use serde::Deserialize;

/// Over how long a kubelet measured that does not say.
const WINDOW_DEFAULT: f64 = 10.0;

#[derive(Debug)]
pub(super) struct Summary {
    node: Option<(Interval, Usage)>,
    /// By uid.
    pods: BTreeMap<String, (Interval, Vec<(String, Usage)>)>,
}

#[derive(Deserialize)]
struct Wire {
    node: WireNode,
    #[serde(default)]
    pods: Vec<WirePod>,
}

#[derive(Deserialize)]
struct WireNode {
    cpu: Option<Cpu>,
    memory: Option<Memory>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePod {
    pod_ref: PodRef,
    #[serde(default)]
    containers: Vec<WireContainer>,
}

#[derive(Deserialize)]
struct PodRef {
    uid: String,
}

#[derive(Deserialize)]
struct WireContainer {
    name: String,
    cpu: Option<Cpu>,
    memory: Option<Memory>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cpu {
    time: Timestamp,
    usage_nano_cores: Option<u64>,
    usage_window_seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    working_set_bytes: Option<u64>,
}

impl Summary {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let Wire { node, pods } = serde_json::from_slice(bytes)?;
        let pods = pods.into_iter().filter_map(|pod| {
            // Of a pod with a container that nothing is known of, nothing is known.
            let measured: Option<Vec<(String, Interval, Usage)>> = pod
                .containers
                .into_iter()
                .map(|it| {
                    let (interval, usage) = measured(it.cpu, it.memory)?;
                    Some((it.name, interval, usage))
                })
                .collect();
            let measured = measured?;
            let earliest = measured.iter().map(|(_, it, _)| *it).min_by_key(|it| it.end)?;
            let containers = measured.into_iter().map(|(name, _, it)| (name, it)).collect();
            Some((pod.pod_ref.uid, (earliest, containers)))
        });
        Ok(Self { pods: pods.collect(), node: measured(node.cpu, node.memory) })
    }

    pub(super) fn node(&self) -> Option<(Interval, Usage)> {
        self.node
    }

    pub(super) fn pod(&self, uid: &str) -> Option<(Interval, Vec<(String, Usage)>)> {
        self.pods.get(uid).cloned()
    }
}

fn measured(cpu: Option<Cpu>, memory: Option<Memory>) -> Option<(Interval, Usage)> {
    let cpu = cpu?;
    let nanos = cpu.usage_nano_cores?;
    let bytes = memory?.working_set_bytes?;
    let seconds = cpu.usage_window_seconds.unwrap_or(WINDOW_DEFAULT);
    let usage = Usage {
        cpu: Amount::parse(&format!("{nanos}n")).ok()?,
        memory: Amount::new(i64::try_from(bytes).unwrap_or(i64::MAX)),
    };
    Some((Interval { end: cpu.time, seconds }, usage))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Summary;

    #[test]
    fn what_is_known_of_every_container_counts() {
        let cpu = json!({"time": "2026-01-01T00:00:00Z", "usageNanoCores": 250_000_000,
            "usageWindowSeconds": 15.0});
        let memory = json!({"workingSetBytes": 2048});
        let summary = json!({
            "node": {"nodeName": "n1", "cpu": cpu, "memory": memory},
            "pods": [
                {"podRef": {"uid": "a"}, "containers": [
                    {"name": "x", "cpu": cpu, "memory": memory}]},
                {"podRef": {"uid": "b"}, "containers": [
                    {"name": "x", "cpu": cpu, "memory": memory},
                    {"name": "y", "cpu": {"time": "2026-01-01T00:00:00Z"}, "memory": memory}]},
                {"podRef": {"uid": "c"}},
            ],
        });
        let summary = Summary::parse(summary.to_string().as_bytes()).unwrap();
        let (interval, usage) = summary.node().unwrap();
        assert_eq!((usage.cpu.millis(), usage.memory.value()), (250, 2048));
        assert!((interval.seconds - 15.0).abs() < 0.01);
        let (_, containers) = summary.pod("a").unwrap();
        assert_eq!(containers.len(), 1);
        assert!(summary.pod("b").is_none() && summary.pod("c").is_none());
        assert!(Summary::parse(b"{}").is_err());
    }
}
