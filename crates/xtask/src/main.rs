//! Developer commands: `cargo xtask test|tidy|bench|conformance|diff|torture|fuzz|dist|install-test-deps`.

mod bench;
mod diff;
mod dist;
mod fuzz;
mod process;
mod test;
mod test_deps;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  test               everything that must pass: tools, format, tidy, lints, tests
  tidy               the shape of the repository alone
  bench api          calls, lists and watches over TLS, beside the server that UPSTREAM_KUBECONFIG names
  bench controllers  10,000 pods by Deployments, StatefulSets, Jobs and a DaemonSet on 1,000 simulated nodes; all controllers idle
  bench extension    [--debug]: rules beside kube-cel, policies, webhooks, 1,000 definitions; --debug only shows that it works
  bench node         pods on this machine: starts, commands, idle, images; beside containerd and runc
  bench up           start, idle and scale budgets of `xebec up`, on the release binary
  torture store      [--rounds N] [--seed S]: at length, everything that tries to break the store, and etcd under it
  torture controllers [--seeds N] [--seed S]: simulated clusters (500), under node deaths, failing calls and changes of the leader
  torture node       [ROUNDS] [--from REV] [--pods N] [--freeze SECONDS] [--debug]: pods of an older version are taken over; kill -9,
                     ROUNDS times (1000), under chatty pods; holders that stop for a while
  torture cel        [--count N] [--seed S]: random typed expressions (1,000,000) by ours and by two other implementations of CEL
  fuzz               [SECONDS]: everything that reads foreign bytes, for so long each (60)
  bench store        the store over etcd's API beside etcd itself; `bench store alone` without the rest of Xebec
  conformance        --kubeconfig FILE [--context NAME] [--filter TEXT] [--list]: what a client may expect of any cluster, case by case
  diff api           [--requests N] [--kind K] [--seed S] [--show N]: objects of every kind, made from schemas and changed, written in
                     every way in dry run on our API server and on the one that UPSTREAM_KUBECONFIG names: what a client could tell apart
  diff controllers   --upstream PATH [--case NAME]: scenarios under that kube-controller-manager and under ours: what is otherwise at rest
  diff extension     [--case NAME] [--record]: definitions, custom objects, policies and webhooks on our API server and on the one that
                     UPSTREAM_KUBECONFIG names: verdicts, objects, warnings, OpenAPI; --record keeps what upstream answered, for the tests
  dist               a tarball of the release binary with unit, completions, documents and checksum
  install-test-deps  installs the Debian, Python and JavaScript packages that the tests need";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(&root()),
        ["bench", "api"] => bench::api::measure(&root()),
        ["bench", "controllers"] => bench::controllers::measure(&root()),
        ["bench", "extension", rest @ ..] => bench::extension::measure(&root(), rest),
        ["bench", "node"] => bench::node::measure(&root()),
        ["bench", "up"] => bench::up::measure(&root()),
        ["torture", "store", rest @ ..] => torture::store::run(rest),
        ["torture", "controllers", rest @ ..] => torture::controllers::run(rest),
        ["torture", "node", rest @ ..] => torture::node::run(rest),
        ["torture", "cel", rest @ ..] => torture::cel::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["bench", "store"] => bench::store::measure(&root(), bench::store::Ours::Xebec),
        ["bench", "store", "alone"] => {
            bench::store::measure(&root(), bench::store::Ours::FrontAlone)
        }
        ["conformance", rest @ ..] => test::conformance(rest),
        ["diff", "api", rest @ ..] => diff::api(&root(), rest),
        ["diff", "controllers", rest @ ..] => diff::controllers(&root(), rest),
        ["diff", "extension", rest @ ..] => diff::extension(&root(), rest),
        ["dist"] => dist::make(&root()),
        ["install-test-deps"] => test_deps::install(&root()).map(|_| ()),
        _ => {
            say(USAGE);
            return ExitCode::from(64);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            say(&format!("error: {err:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The repository: this crate lies two levels below it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap_or_else(|| Path::new("."))
        .to_owned()
}

#[expect(clippy::print_stdout, reason = "a command line tool speaks on standard output")]
fn say(text: &str) {
    println!("{text}");
}
