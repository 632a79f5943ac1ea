//! Dependencies point down: a crate may use only crates of lower layers, never one of its own.

use std::path::Path;

use anyhow::Result;

use super::{Problem, read};

/// Lowest first. A crate that is not here may not exist.
const LAYERS: &[&[&str]] = &[
    &["cel", "stdx", "test-ports"],
    &["bgp", "features", "lifecycle", "linux", "telemetry"],
    &["apimachinery", "kvstore", "grpc", "node-api", "serving", "spdy"],
    &["api", "etcd", "images"],
    &["client", "containers", "cri", "packets"],
    &["informer"],
    &["reconcile", "authn", "authz"],
    &["admission"],
    &[
        "apiserver",
        "controllers",
        "dns",
        "kubelet",
        "network",
        "scheduler",
        "service-proxy",
        "simulator",
        "toolbox",
        "volumes",
    ],
    &["control-plane"],
    &["testkit"],
    &["app"],
    &["xtask"],
];

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = path.join("Cargo.toml");
        let Some(layer) = layer_of(&name) else {
            problems.push(Problem::new(
                &path,
                "crate has no layer; add it to LAYERS in xtask/src/tidy/layers.rs",
            ));
            continue;
        };
        for used in used_crates(&read(&manifest)?) {
            if layer_of(&used).is_some_and(|it| it >= layer) {
                problems.push(Problem::new(
                    &manifest,
                    &format!("{name} may not depend on {used}: dependencies point down"),
                ));
            }
        }
    }
    problems.extend(check_examples(root)?);
    problems.extend(check_suites(root)?);
    Ok(problems)
}

/// Suites see a cluster from outside: they use none of our crates.
fn check_suites(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(root.join("tests"))? {
        let manifest = entry?.path().join("Cargo.toml");
        for used in used_crates(&read(&manifest)?) {
            let what = format!("a suite may not depend on {used}: it sees a cluster from outside");
            problems.push(Problem::new(&manifest, &what));
        }
    }
    Ok(problems)
}

/// The highest layer that is a library for others.
const LIBRARY: &str = "reconcile";

/// Examples are what others could write: they use the libraries alone.
fn check_examples(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(root.join("examples/operators"))? {
        let manifest = entry?.path().join("Cargo.toml");
        for used in used_crates(&read(&manifest)?) {
            if layer_of(&used) > layer_of(LIBRARY) {
                let what = format!("an example may not depend on {used}, only on libraries");
                problems.push(Problem::new(&manifest, &what));
            }
        }
    }
    Ok(problems)
}

/// Our own crates under `[dependencies]`; tests may look sideways.
fn used_crates(manifest: &str) -> Vec<String> {
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or("");
    let dependencies = dependencies.split("\n[").next().unwrap_or("");
    dependencies
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| layer_of(name).is_some())
        .map(str::to_owned)
        .collect()
}
