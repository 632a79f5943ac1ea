//! `cargo xtask bench controllers`: 10,000 pods on 1,000 simulated nodes by each kind of workload:
//! how long, how much memory, how much CPU per pod; and what all controllers cost when idle.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::up::{Cluster, wait};
use super::usage::{self, now, report};
use crate::process::{output, run};
use crate::say;

const NODES: usize = 1_000;
const PODS: usize = 10_000;
const OBJECTS: usize = 20;
const SECONDS_IDLE: u64 = 30;

/// A kind of workload, and how its objects say that all pods are there.
struct Workload {
    name: &'static str,
    resource: &'static str,
    objects: usize,
    pods: usize,
    /// Of the status.
    count: &'static str,
    object: fn(name: &str, pods: usize) -> Value,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "Deployments",
        resource: "deployments",
        objects: OBJECTS,
        pods: PODS,
        count: "readyReplicas",
        object: deployment,
    },
    Workload {
        name: "StatefulSets (Parallel)",
        resource: "statefulsets",
        objects: OBJECTS,
        pods: PODS,
        count: "readyReplicas",
        object: stateful_set,
    },
    Workload {
        name: "Jobs",
        resource: "jobs",
        objects: OBJECTS,
        pods: PODS,
        count: "succeeded",
        object: job,
    },
    Workload {
        name: "one DaemonSet",
        resource: "daemonsets",
        objects: 1,
        pods: NODES,
        count: "numberReady",
        object: daemon_set,
    },
];

pub(crate) fn measure(root: &Path) -> Result<()> {
    run(Command::new("cargo").args(["build", "--release", "--bin", "xebec"]).current_dir(root))?;
    let binary = root.join("target/release/xebec");
    WORKLOADS.iter().try_for_each(|it| measure_one(&binary, it))?;
    idle(&binary)
}

fn measure_one(binary: &Path, workload: &Workload) -> Result<()> {
    let cluster = Cluster::start(binary, NODES)?;
    let kubectl = || {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(cluster.kubeconfig());
        command
    };
    cluster.wait_for_nodes(NODES)?;
    let each = workload.pods / workload.objects;
    let objects = (0..workload.objects).map(|it| (workload.object)(&format!("load-{it}"), each));
    let objects: Vec<String> = objects.map(|it| it.to_string()).collect();
    let manifest = cluster.directory().join("objects.yaml");
    fs::write(&manifest, format!("---\n{}", objects.join("\n---\n")))?;
    let (started, cpu) = (now(), usage::cpu_seconds(cluster.pid())?);
    run(kubectl().args(["create", "-f"]).arg(&manifest).stdout(Stdio::null()))?;
    let path = format!("jsonpath={{.items[*].status.{}}}", workload.count);
    wait(Duration::from_secs(600), || {
        let counts = output(kubectl().args(["get", workload.resource, "-o", &path]))?;
        let counts = counts.split_whitespace().filter_map(|it| it.parse::<usize>().ok());
        Ok(counts.sum::<usize>() == workload.pods)
    })
    .with_context(|| workload.name)?;
    let (seconds, pods) = (started.elapsed().as_secs_f64(), workload.pods);
    let cpu = (usage::cpu_seconds(cluster.pid())? - cpu) * 1000.0 / pods as f64;
    say(&format!("{pods} pods by {} on {NODES} nodes: {seconds:.1} s", workload.name));
    report("  peak RSS", usage::memory(cluster.pid(), "VmHWM")?, "MiB", 220.0);
    report("  CPU per pod, whole control plane", cpu, "ms", 1.0);
    Ok(())
}

/// No nodes, no pods, all controllers.
fn idle(binary: &Path) -> Result<()> {
    let cluster = Cluster::start(binary, 0)?;
    std::thread::sleep(Duration::from_secs(10));
    let (cpu, woken) = (usage::cpu_seconds(cluster.pid())?, usage::switches(cluster.pid())?);
    std::thread::sleep(Duration::from_secs(SECONDS_IDLE));
    let seconds = SECONDS_IDLE as f64;
    let woken = (usage::switches(cluster.pid())? - woken) / seconds;
    let cpu = (usage::cpu_seconds(cluster.pid())? - cpu) / seconds * 100.0;
    report("idle RSS", usage::memory(cluster.pid(), "VmRSS")?, "MiB", 25.0);
    report("idle CPU", cpu, "% of a core", 0.2);
    say(&format!("idle: {woken:.1} times a second a thread gave up its CPU of itself"));
    Ok(())
}

fn template(name: &str, rest: &Value) -> Value {
    let mut template = json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{
            "name": "main", "image": "xebec.local/toolbox",
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
        }] },
    });
    if let Some(policy) = rest.get("restartPolicy") {
        template["spec"]["restartPolicy"] = policy.clone();
    }
    if let Some(annotations) = rest.get("annotations") {
        template["metadata"]["annotations"] = annotations.clone();
    }
    template
}

fn workload(version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec,
    });
    if kind != "Job" {
        object["spec"]["selector"] = json!({ "matchLabels": { "app": name } });
        object["spec"]["template"] = template(name, &json!({}));
    }
    object
}

fn deployment(name: &str, pods: usize) -> Value {
    workload("apps/v1", "Deployment", name, &json!({ "replicas": pods }))
}

fn stateful_set(name: &str, pods: usize) -> Value {
    let spec = json!({ "replicas": pods, "podManagementPolicy": "Parallel", "serviceName": name });
    workload("apps/v1", "StatefulSet", name, &spec)
}

fn daemon_set(name: &str, _pods: usize) -> Value {
    workload("apps/v1", "DaemonSet", name, &json!({}))
}

fn job(name: &str, pods: usize) -> Value {
    let ends = json!({ "simulator.xebec.local/containers": "after=1" });
    let template = template(name, &json!({ "restartPolicy": "Never", "annotations": ends }));
    let spec = json!({ "completions": pods, "parallelism": pods, "template": template });
    workload("batch/v1", "Job", name, &spec)
}
