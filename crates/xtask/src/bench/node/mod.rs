//! `cargo xtask bench node`: how fast pods are ready and where the time goes, what they cost when
//! nothing happens, commands in them, and unpacking an image; with the embedded runtime, and beside
//! it with containerd and runc where Debian's can be had.

mod containerd;
mod image;
mod machine;
mod metrics;
pub(super) mod phases;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use self::containerd::Containerd;
use self::machine::Machine;
use self::metrics::Operations;
use super::median;
use super::usage::{self, report};
use crate::process::{output, run};
use crate::say;

/// Started one after the other.
const PODS: usize = 20;
const PODS_IDLE: usize = 30;
const PODS_AT_ONCE: usize = 100;
const TOOLBOX: &str = "xebec.local/toolbox";
const SECONDS_IDLE: u64 = 60;

/// What is measured with.
pub(super) struct Programs {
    xebec: PathBuf,
    load: PathBuf,
}

pub(crate) fn measure(root: &Path) -> Result<()> {
    let build = |words: &[&str]| {
        let mut cargo = Command::new("cargo");
        run(cargo.args(["build", "--release"]).args(words).current_dir(root))
    };
    build(&["--bin", "xebec"])?;
    build(&["-p", "client", "--example", "load"])?;
    let programs = Programs {
        xebec: root.join("target/release/xebec"),
        load: root.join("target/release/examples/load"),
    };
    starts(&programs)?;
    embedded(&programs)?;
    let containerd = Containerd::find(root);
    match &containerd {
        Ok(containerd) => beside(&programs, containerd)?,
        Err(err) => say(&format!("no containerd to run beside: {err:#}")),
    }
    image::unpack(&programs.xebec, containerd.as_ref().ok())
}

fn starts(programs: &Programs) -> Result<()> {
    let start = |_| -> Result<f64> {
        let machine = Machine::start(&programs.xebec, &[])?;
        Ok(machine.ready_after.as_secs_f64() * 1000.0)
    };
    let starts = (0..7).map(start).collect::<Result<Vec<_>>>()?;
    report("exec to node Ready, median of 7", median(starts), "ms", 80.0);
    Ok(())
}

fn embedded(programs: &Programs) -> Result<()> {
    let machine = Machine::start(&programs.xebec, &[])?;
    let started = one_by_one(programs, &machine, "embedded", TOOLBOX)?;
    report("create to Ready seen by a watch, median", started.ready, "ms", 40.0);
    report("bind to process running, mean", started.bound_to_running, "ms", 20.0);
    commands(&machine)?;
    machine.delete_pods()?;
    at_once(programs, &machine, TOOLBOX)?;
    drop(machine);
    // One that has nothing to clear away any more.
    idle(programs, &Machine::start(&programs.xebec, &[])?)
}

/// The same kubelet over containerd's CRI, with runc and its shim.
fn beside(programs: &Programs, containerd: &Containerd) -> Result<()> {
    let machine = Machine::over(&programs.xebec, containerd)?;
    let started = one_by_one(programs, &machine, "containerd", containerd.image())?;
    say(&format!("containerd and runc: create to Ready, median: {:.1} ms", started.ready));
    machine.delete_pods()?;
    at_once(programs, &machine, containerd.image())
}

/// In milliseconds.
struct Started {
    ready: f64,
    bound_to_running: f64,
}

/// Pods one after the other: when a watch shows each step, and what the kubelet asked its runtime
/// for meanwhile.
fn one_by_one(programs: &Programs, machine: &Machine, name: &str, image: &str) -> Result<Started> {
    let before = Operations::read(machine)?;
    let found = load(programs, machine, &["pods", image, &PODS.to_string()])?;
    let operations = Operations::read(machine)?.since(&before);
    say(&format!("{name}: after the creation was sent, a watch or the answer shows (ms, median):"));
    let mut steps: Vec<(f64, &String)> = found["milliseconds"]
        .as_object()
        .context("a load says how long steps took")?
        .iter()
        .filter_map(|(step, after)| Some((after.as_f64()?, step)))
        .collect();
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (after, step) in &steps {
        say(&format!("  {step:<12} {after:7.1}"));
    }
    say(&format!("{name}: of which the kubelet waited for (ms, mean):"));
    for (operation, mean) in operations.means() {
        say(&format!("  {operation:<24} {mean:7.2}"));
    }
    let ready = found["milliseconds"]["ready"].as_f64().unwrap_or(f64::NAN);
    Ok(Started { ready, bound_to_running: operations.pod_start_mean() })
}

fn at_once(programs: &Programs, machine: &Machine, image: &str) -> Result<()> {
    let found = load(programs, machine, &["burst", image, &PODS_AT_ONCE.to_string()])?;
    let rate = found["per second"].as_f64().unwrap_or(f64::NAN);
    say(&format!("{PODS_AT_ONCE} pods at once: {rate:.1} a second (goal: 60)"));
    Ok(())
}

/// What a load prints last.
fn load(programs: &Programs, machine: &Machine, words: &[&str]) -> Result<Value> {
    let mut command = machine.inside(&programs.load);
    let text = output(command.arg(machine.kubeconfig()).args(words))?;
    Ok(serde_json::from_str(text.lines().last().context("a load says what it found")?)?)
}

/// By probes, of which each is one command in a container.
fn commands(machine: &Machine) -> Result<()> {
    let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    let container = json!({"name": "main", "image": TOOLBOX, "readinessProbe": probe});
    machine.create_pod("probed", &json!({"containers": [container]}))?;
    let before = Operations::read(machine)?;
    std::thread::sleep(Duration::from_secs(15));
    let mean = Operations::read(machine)?.since(&before).mean("exec_sync");
    report("a command in a container, there and back, mean", mean, "ms", 10.0);
    Ok(())
}

fn idle(programs: &Programs, machine: &Machine) -> Result<()> {
    load(programs, machine, &["burst", TOOLBOX, &PODS_IDLE.to_string()])?;
    std::thread::sleep(Duration::from_secs(20));
    let pid = machine.pid();
    let (cpu, written) = (usage::cpu_seconds(pid)?, usage::written_bytes(pid)?);
    std::thread::sleep(Duration::from_secs(SECONDS_IDLE));
    let cpu = (usage::cpu_seconds(pid)? - cpu) / SECONDS_IDLE as f64 * 100.0;
    let written = usage::written_bytes(pid)? - written;
    report(&format!("idle CPU with {PODS_IDLE} pods"), cpu, "% of a core", 0.15);
    say(&format!("idle writes over {SECONDS_IDLE} s with {PODS_IDLE} pods: {written} bytes"));
    report("idle RSS with a node and its pods", usage::memory(pid, "VmRSS")?, "MiB", 55.0);
    let holders = machine.holders();
    let all = holders.iter().map(|it| usage::proportional_memory(*it)).collect::<Result<Vec<_>>>();
    let total: f64 = all?.iter().sum();
    let each = total / holders.len().max(1) as f64;
    report("PSS of a pod beyond its own processes, mean", each, "MiB", 1.0);
    Ok(())
}

/// Bytes of everything below it.
fn size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|it| match it.file_type() {
            Ok(kind) if kind.is_dir() => size(&it.path()),
            _ => it.metadata().map_or(0, |it| it.len()),
        })
        .sum()
}
