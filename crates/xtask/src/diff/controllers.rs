//! `cargo xtask diff controllers`: what upstream's kube-controller-manager and ours make of the same
//! objects, over our API server with simulated nodes. What is at rest at the end of each scenario
//! is compared, events included; known differences have their reason in `known.json`. Then each takes
//! over from the other amid what the scenarios left, and nothing may change by that. With
//! `UPSTREAM_KUBECONFIG` set, all this is over upstream's API server, which needs nodes.

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
    let upstream = Manager { program: upstream, words: &[] };
    let ours = Manager { program: root.join("target/debug/xebec"), words: &["controller-manager"] };
    let of_upstream = play(root, &cases, &upstream)?;
    let of_ours = play(root, &cases, &ours)?;
    let n_changed = take_over(root, &cases, "ours follows", [&upstream, &ours])?
        + take_over(root, &cases, "upstream's follows", [&ours, &upstream])?;
    let known = std::fs::read_to_string(root.join(SCENARIOS).join("known.json"))?;
    let known: Vec<Value> = serde_json::from_str(&known).context("known.json")?;
    report(&of_upstream, &of_ours, &known)?;
    ensure!(n_changed == 0, "{n_changed} cases change when another manager takes over");
    Ok(())
}

/// Where scenarios are played.
enum Place {
    /// A server of ours with simulated nodes.
    Ours(Server),
    /// Somebody else's, with a directory for what is written here.
    Upstream { kubeconfig: PathBuf, directory: tempfile::TempDir },
}

impl Place {
    fn open(root: &Path) -> Result<Self> {
        if let Some(kubeconfig) = std::env::var_os("UPSTREAM_KUBECONFIG") {
            let directory = tempfile::tempdir()?;
            return Ok(Self::Upstream { kubeconfig: kubeconfig.into(), directory });
        }
        // A list without a star has only what it names, and this names what it has not.
        let flags = ["up", "--node", "none", "--simulate", "3", "--controllers=-job-controller"];
        let xebec = root.join("target/debug/xebec");
        Ok(Self::Ours(Server::start(&xebec, &flags, "--https-port", "Your cluster is ready")?))
    }

    fn data(&self) -> PathBuf {
        match self {
            Self::Ours(server) => server.data(),
            Self::Upstream { directory, .. } => directory.path().to_owned(),
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Ours(server) => server.kubeconfig(),
            Self::Upstream { kubeconfig, .. } => kubeconfig.clone(),
        }
    }

    /// What the scenarios saw.
    fn scenarios(&self, root: &Path, way: &str, cases: &[PathBuf]) -> Result<Value> {
        let out = self.data().join(format!("{way}.json"));
        let mut scenarios = Command::new(root.join("target/debug/examples/scenarios"));
        run(scenarios.arg(way).arg(self.kubeconfig()).arg(&out).args(cases))?;
        Ok(serde_json::from_str(&std::fs::read_to_string(out)?)?)
    }
}

/// A controller manager, and the words before its flags.
struct Manager {
    program: PathBuf,
    words: &'static [&'static str],
}

impl Manager {
    fn start(&self, place: &Place) -> Result<Beside> {
        let mut command = Command::new(&self.program);
        command
            .args(self.words)
            .arg(format!("--kubeconfig={}", place.kubeconfig().display()))
            .args(["--leader-elect=false", "--use-service-account-credentials=false"])
            .args(["--secure-port=0", "--controllers=*"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(place.data().join("manager.log"))?);
        if let Place::Ours(server) = place {
            let root_ca = server.data().join("pki/ca.crt");
            command.arg(format!("--root-ca-file={}", root_ca.display()));
        }
        let child = command.spawn();
        Ok(Beside(child.with_context(|| format!("starting {}", self.program.display()))?))
    }
}

/// What was seen of all cases, under one controller manager.
fn play(root: &Path, cases: &[PathBuf], manager: &Manager) -> Result<Value> {
    let place = Place::open(root)?;
    let _manager = manager.start(&place)?;
    place.scenarios(root, "play", cases)
}

/// Cases that time itself changes, that end with what is on its way, or with what never ends.
const NOT_HELD: &[&str] = &["cronjob", "foreground", "fresh-namespace", "job-ttl"];

/// One manager takes over from the other; how many cases look otherwise after.
#[expect(clippy::print_stdout, reason = "the result goes to standard output")]
fn take_over(
    root: &Path,
    cases: &[PathBuf],
    what: &str,
    [first, second]: [&Manager; 2],
) -> Result<usize> {
    let name = |it: &PathBuf| it.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let held = cases.iter().filter(|it| !NOT_HELD.contains(&name(it).as_str()));
    let held: Vec<PathBuf> = held.cloned().collect();
    let place = Place::open(root)?;
    let manager = first.start(&place)?;
    let before = place.scenarios(root, "hold", &held)?;
    drop(manager);
    let _manager = second.start(&place)?;
    let after = place.scenarios(root, "look-again", &held)?;
    let mut n_changed = 0;
    for (case, before) in before.as_object().context("cases")? {
        let after = &after[case];
        let is_same = before.is_object() && before == after;
        println!("{} {case}, {what}", if is_same { "kept   " } else { "CHANGED" });
        if !is_same {
            n_changed += 1;
            println!("  before {before}\n  after  {after}");
        }
    }
    Ok(n_changed)
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
