//! `cargo xtask torture store`: the long runs that try to break the store, on the release build;
//! and the store over an etcd cluster whose members break.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::{root, say, test_deps};

/// Faults of an etcd cluster with one round. Each takes seconds: an election, and clients that go
/// on.
const CLUSTERS: u64 = 4;
const FAULTS_PER_CLUSTER: u64 = 10;
const CLUSTER_TEST: &str = "cluster::what_clients_are_told_is_right_while_members_break";

/// What is asked for; a seed that is not given is a new one each time.
struct Wish {
    rounds: u64,
    seed: u64,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let Wish { rounds, seed } = parse(words)?;
    process::run(
        Command::new("cargo")
            .args(["run", "--release", "-q", "-p", "kvstore", "--example", "torture", "--"])
            .args([rounds.to_string(), seed.to_string()])
            .current_dir(root()),
    )?;
    break_clusters(rounds, seed)
}

/// Three members of Debian's etcd that are killed, paused, cut off and restarted under clients.
/// Many short histories, since checking one takes longer the longer it is.
fn break_clusters(rounds: u64, seed: u64) -> Result<()> {
    let etcd = test_deps::unpacked_program(&root(), "usr/bin/etcd");
    let etcdctl = test_deps::unpacked_program(&root(), "usr/bin/etcdctl");
    let (etcd, etcdctl) = (etcd.context("etcd")?, etcdctl.context("etcdctl")?);
    let n_clusters = rounds * CLUSTERS;
    for seed in (seed..).take(usize::try_from(n_clusters).unwrap_or(usize::MAX)) {
        let mut test = Command::new("cargo");
        test.args(["test", "--release", "-q", "-p", "etcd", "--test", "engine", "--"])
            .args(["--exact", CLUSTER_TEST, "--nocapture"])
            .env("XEBEC_TEST_ETCD", &etcd)
            .env("XEBEC_TEST_ETCDCTL", &etcdctl)
            .env("XEBEC_TORTURE_ROUNDS", FAULTS_PER_CLUSTER.to_string())
            .env("XEBEC_TORTURE_SEED", seed.to_string())
            .current_dir(root());
        let output = test.output().context("starting cargo")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("{printed}{}", String::from_utf8_lossy(&output.stderr));
        }
        if let Some(why) = printed.lines().find(|it| it.starts_with("SKIPPED")) {
            say(&format!("WARNING: no etcd cluster was broken: {why}"));
            return Ok(());
        }
        printed.lines().filter(|it| it.contains("operations, ")).for_each(say);
    }
    let n_faults = n_clusters * FAULTS_PER_CLUSTER;
    say(&format!("{n_faults:>12}  faults of etcd clusters, seeds from {seed} on"));
    Ok(())
}

fn parse(words: &[&str]) -> Result<Wish> {
    let mut wish = Wish { rounds: 1, seed: u64::from(std::process::id()) };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a number"))?;
        let value = value.parse().with_context(|| format!("{word} {value}: not a number"))?;
        match *word {
            "--rounds" => wish.rounds = value,
            "--seed" => wish.seed = value,
            other => bail!("{other} is not known: --rounds N, --seed S"),
        }
    }
    Ok(wish)
}
