//! `cargo xtask diff api`: our API server beside upstream's, by what clients can see of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::bench::up::Cluster;
use crate::process::run;

/// Where kinds have their examples.
const EXAMPLES: &str = "crates/api/src";

pub(crate) fn api(root: &Path) -> Result<()> {
    let upstream = std::env::var_os("UPSTREAM_KUBECONFIG")
        .context("UPSTREAM_KUBECONFIG names no API server of upstream's to compare with")?;
    let mut build = Command::new("cargo");
    run(build.args(["build", "--bin", "xebec"]).current_dir(root))?;
    let mut build = Command::new("cargo");
    run(build.args(["build", "-p", "client", "--example", "differ"]).current_dir(root))?;
    let cluster = Cluster::start(&root.join("target/debug/xebec"), 0)?;
    let mut differ = Command::new(root.join("target/debug/examples/differ"));
    differ.arg(cluster.kubeconfig()).arg(upstream).args(examples(&root.join(EXAMPLES))?);
    run(&mut differ)
}

fn examples(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(examples(&path)?);
        } else if path.ends_with("example.json") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
