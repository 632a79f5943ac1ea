//! `cargo xtask diff controllers`: what upstream's kube-controller-manager and ours make of the same
//! objects, over our API server with simulated nodes. What is at rest at the end of each scenario
//! is compared, events included; known differences have their reason in `known.json`.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::server::{Beside, Server};
use crate::process::run;

const SCENARIOS: &str = "crates/client/examples/scenarios";

pub(crate) fn controllers(root: &Path, arguments: &[&str]) -> Result<()> {
    let (mut upstream, mut filter) = (None, "");
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match *argument {
            "--upstream" => upstream = Some(PathBuf::from(value()?)),
            "--case" => filter = *value()?,
            other => {
                anyhow::bail!("{other} is not known; there are --upstream PATH and --case NAME")
            }
        }
    }
    let upstream =
        upstream.context("--upstream PATH names no kube-controller-manager to compare with")?;
    let mut build = Command::new("cargo");
    let what = ["build", "-p", "app", "-p", "client", "--bin", "xebec", "--example", "scenarios"];
    run(build.args(what).current_dir(root))?;
    let mut cases: Vec<PathBuf> = std::fs::read_dir(root.join(SCENARIOS).join("cases"))?
        .map(|it| Ok(it?.path()))
        .collect::<Result<_>>()?;
    let is_wanted = |it: &PathBuf| it.to_string_lossy().contains(filter);
    cases.retain(|it| is_wanted(it));
    cases.sort();
    let of_upstream = play(root, &cases, |server| manager(&upstream, &[], server))?;
    let xebec = root.join("target/debug/xebec");
    let of_ours = play(root, &cases, |server| manager(&xebec, &["controller-manager"], server))?;
    let known = std::fs::read_to_string(root.join(SCENARIOS).join("known.json"))?;
    let known: Vec<Value> = serde_json::from_str(&known).context("known.json")?;
    report(&of_upstream, &of_ours, &known)
}

/// What was seen of all cases, under one controller manager.
fn play(
    root: &Path,
    cases: &[PathBuf],
    manager: impl FnOnce(&Server) -> Result<Beside>,
) -> Result<Value> {
    // A list without a star has only what it names, and this names what it has not.
    let flags = ["up", "--node", "none", "--simulate", "3", "--controllers=-job-controller"];
    let xebec = root.join("target/debug/xebec");
    let server = Server::start(&xebec, &flags, "--https-port", "Your cluster is ready")?;
    let _manager = manager(&server)?;
    let out = server.data().join("seen.json");
    let mut scenarios = Command::new(root.join("target/debug/examples/scenarios"));
    run(scenarios.arg(server.kubeconfig()).arg(&out).args(cases))?;
    Ok(serde_json::from_str(&std::fs::read_to_string(out)?)?)
}

fn manager(program: &Path, words: &[&str], server: &Server) -> Result<Beside> {
    let (data, kubeconfig) = (server.data(), server.kubeconfig());
    let log = File::create(data.join("manager.log"))?;
    let key = data.join("pki/service-account.key");
    let child = Command::new(program)
        .args(words)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(["--leader-elect=false", "--use-service-account-credentials=false"])
        .args(["--secure-port=0", "--controllers=*"])
        .arg(format!("--root-ca-file={}", data.join("pki/ca.crt").display()))
        .arg(format!("--service-account-private-key-file={}", key.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok(Beside(child))
}

#[expect(clippy::print_stdout, reason = "the result goes to standard output")]
fn report(upstream: &Value, ours: &Value, known: &[Value]) -> Result<()> {
    let (mut n_alike, mut n_known, mut n_different) = (0, 0, 0);
    let cases = upstream.as_object().context("cases")?;
    for (case, upstream) in cases {
        let ours = &ours[case];
        let mut lines = Vec::new();
        if let (Value::String(upstream), _) | (_, Value::String(upstream)) = (upstream, ours) {
            lines.push(format!("  was not played: {upstream}"));
        }
        let whats = upstream.as_object().into_iter().flatten().map(|(what, _)| what.as_str());
        for what in whats {
            let (theirs, own) = (items(&upstream[what]), items(&ours[what]));
            n_alike += theirs.intersection(&own).count();
            for (who, item) in theirs
                .difference(&own)
                .map(|it| ("upstream", it))
                .chain(own.difference(&theirs).map(|it| ("ours", it)))
            {
                match reason(known, case, what, who, item) {
                    Some(_) => n_known += 1,
                    None => lines.push(format!("  {what}, {who} alone: {item}")),
                }
            }
        }
        n_different += lines.len();
        println!("{} {case}", if lines.is_empty() { "alike " } else { "DIFFER" });
        lines.iter().for_each(|it| println!("{it}"));
    }
    println!("{n_alike} alike, {n_known} known, {n_different} differ");
    ensure!(n_different == 0, "{n_different} differences are not known");
    Ok(())
}

fn items(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().map(Value::to_string).collect(),
        Value::Null => BTreeSet::new(),
        other => [other.to_string()].into(),
    }
}

/// Why a difference is there, if it is a known one: all that an entry says must be so.
fn reason<'a>(
    known: &'a [Value],
    case: &str,
    what: &str,
    who: &str,
    item: &str,
) -> Option<&'a str> {
    let entry = known.iter().find(|it| {
        let is = |field: &str, seen: &str| it[field].as_str().is_none_or(|it| it == seen);
        let has = it["has"].as_str().is_none_or(|it| item.contains(it));
        is("case", case) && is("what", what) && is("who", who) && has
    });
    entry.and_then(|it| it["reason"].as_str())
}
