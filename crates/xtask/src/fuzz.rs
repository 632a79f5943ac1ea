//! `cargo xtask fuzz [SECONDS]`: every fuzz target there is, built and run for a while each. What
//! they find stays in `fuzz/artifacts` of the crate.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::{root, say};

/// Crates with a folder `fuzz`.
const CRATES: &[&str] = &[
    "apimachinery",
    "apiserver",
    "authn",
    "bgp",
    "cel",
    "containers",
    "controllers",
    "dns",
    "etcd",
    "images",
    "kubelet",
    "kvstore",
    "linux",
];
const SECONDS_DEFAULT: u64 = 60;
/// One input may take so long. Whoever takes longer hangs.
const TIMEOUT_SECONDS: u64 = 60;

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let seconds = match words {
        [] => SECONDS_DEFAULT,
        [seconds] => {
            seconds.parse().with_context(|| format!("{seconds}: not a number of seconds"))?
        }
        _ => bail!("only the number of seconds for each target can be given"),
    };
    let tool = install_tool()?;
    let mut broken = Vec::new();
    for name in CRATES {
        let folder = root().join("crates").join(name);
        for target in targets(&folder)? {
            if let Err(err) = process::run(&mut fuzz(&tool, &folder, &target, seconds)) {
                broken.push(format!("{name}/{target}: {err:#}"));
            }
        }
    }
    if !broken.is_empty() {
        bail!("inputs that break something are in crates/*/fuzz/artifacts: {}", broken.join("; "));
    }
    say(&format!("nothing broke, with {seconds} s for each target"));
    Ok(())
}

fn fuzz(tool: &Path, folder: &Path, target: &str, seconds: u64) -> Command {
    let mut command = Command::new(tool);
    command
        // The pinned compiler has what libFuzzer needs, but only nightly ones admit it. There is no
        // unsafe code of ours for a sanitizer to watch.
        .env("RUSTC_BOOTSTRAP", "1")
        // Most of what they need is the same.
        .env("CARGO_TARGET_DIR", root().join("target/fuzz"))
        .args(["fuzz", "run", "--sanitizer", "none", target, "--"])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={TIMEOUT_SECONDS}"))
        .current_dir(folder);
    command
}

/// By the files that there are, so that none is forgotten.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder);
    let mut names = Vec::new();
    for entry in entries.with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// The program `cargo-fuzz`, installed below `target/` if the machine has none. It needs a C++
/// compiler for libFuzzer.
fn install_tool() -> Result<PathBuf> {
    if !process::is_there("c++", "--version") {
        bail!("libFuzzer needs a C++ compiler: `apt-get install g++`");
    }
    if process::is_there("cargo-fuzz", "--version") {
        return Ok("cargo-fuzz".into());
    }
    let folder = root().join("target/fuzz-tool");
    let tool = folder.join("bin/cargo-fuzz");
    if !tool.exists() {
        say("installing cargo-fuzz below target/fuzz-tool");
        let mut install = Command::new("cargo");
        process::run(install.args(["install", "--locked", "cargo-fuzz", "--root"]).arg(&folder))?;
    }
    Ok(tool)
}
