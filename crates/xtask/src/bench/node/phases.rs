//! The six phases of minikube's time-to-k8s, each as a user's kubectl sees it: from the command to a
//! pod that looks up a name.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};

use super::super::usage::{now, report};
use super::TOOLBOX;
use super::machine::Machine;
use crate::say;

/// Of k3d, published: 19.9 s; kind 33, minikube 50.8.
const BUDGET: f64 = 3.0;
const PATIENCE: Duration = Duration::from_secs(60);

/// A phase ends when its command does well.
const PHASES: &[(&str, &[&str])] = &[
    ("API server answering", &["get", "pods"]),
    ("Service kubernetes", &["get", "service", "kubernetes"]),
    ("DNS Service", &["get", "service", "kube-dns", "--namespace=kube-system"]),
    ("app running", &["wait", "pod/app", "--for=condition=Ready", "--timeout=60s"]),
    ("DNS answering", &["exec", "app", "--", "dns", "kubernetes.default"]),
];

pub(in crate::bench) fn measure(xebec: &Path) -> Result<()> {
    let machine = Machine::start(xebec, &[])?;
    let mut sum = machine.ready_after.as_secs_f64();
    say(&format!("time to Kubernetes: command {sum:.2} s"));
    for (phase, words) in PHASES {
        let started = now();
        if *phase == "app running" {
            let image = format!("--image={TOOLBOX}");
            succeeds(&machine, &["run", "app", &image, "--restart=Never", "--", "sleep", "1000"])?;
        }
        while !succeeds(&machine, words)? {
            if started.elapsed() > PATIENCE {
                bail!("{phase}: not so after {PATIENCE:?}");
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        sum += seconds;
        say(&format!("time to Kubernetes: {phase} {seconds:.2} s"));
    }
    report("time to Kubernetes, all six", sum, "s", BUDGET);
    Ok(())
}

fn succeeds(machine: &Machine, words: &[&str]) -> Result<bool> {
    let mut kubectl: Command = machine.inside(Path::new("kubectl"));
    kubectl.arg("--kubeconfig").arg(machine.kubeconfig()).args(words);
    Ok(kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
}
