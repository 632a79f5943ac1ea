//! `cargo xtask diff api`: our API server beside upstream's, by what clients can see of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::server::Server;
use crate::process::run;

/// Where kinds have their examples.
const EXAMPLES: &str = "crates/api/src";

pub(crate) fn api(root: &Path, arguments: &[&str]) -> Result<()> {
    let upstream = super::upstream_kubeconfig()?;
    // At once: alone, the example would have dependencies with other features, built anew.
    let mut build = Command::new("cargo");
    let what = ["build", "-p", "app", "-p", "client", "--bin", "xebec", "--example", "differ"];
    run(build.args(what).current_dir(root))?;
    let server = Server::start_alone(root)?;
    let mut differ = Command::new(root.join("target/debug/examples/differ"));
    differ.arg(server.kubeconfig()).arg(upstream).args(arguments);
    run(differ.args(examples(&root.join(EXAMPLES))?))
}

fn examples(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(examples(&path)?);
        } else if is_example(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// `example.json`, and `example.v1.json` of another version of a kind.
fn is_example(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    name.starts_with("example.") && name.ends_with(".json")
}
