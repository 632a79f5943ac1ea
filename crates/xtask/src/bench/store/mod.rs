//! `cargo xtask bench store`: the store over etcd's API beside Debian's etcd, both with fsync, on
//! the same disk, in one run.
//!
//! `cargo xtask bench store alone` measures the front and the engine without the rest of Xebec,
//! which builds in a fraction of the time.

mod perf;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use self::server::Server;
use crate::process::{output, run};
use crate::say;

/// Which program serves our store.
#[derive(Clone, Copy)]
pub(crate) enum Ours {
    Xebec,
    FrontAlone,
}

/// One kind of load, and what the figures of it should be beside etcd's: ours divided by theirs.
struct Load {
    name: &'static str,
    /// How often, each time on fresh servers in turn; the figures are the medians. A host that
    /// takes cores or the disk away for seconds moves single figures by a factor of two.
    rounds: usize,
    arguments: &'static [&'static str],
    goals: &'static [(&'static str, Goal)],
}

#[derive(Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

const CPU: (&str, Goal) = ("cpu_us_per_put", Goal::AtMost(0.2));

const PUT_ROUNDS: usize = 5;

const LOADS: &[Load] = &[
    Load {
        name: "puts of 1 KB, 1 client",
        rounds: PUT_ROUNDS,
        arguments: &["puts", "1", "4"],
        goals: &[("latency_p50_ms", Goal::AtMost(1.0)), CPU],
    },
    Load {
        name: "puts of 1 KB, 64 clients",
        rounds: PUT_ROUNDS,
        arguments: &["puts", "64", "4"],
        goals: &[("puts_per_second", Goal::AtLeast(5.0)), CPU],
    },
    Load {
        name: "puts of 1 KB, 500 clients",
        rounds: PUT_ROUNDS,
        arguments: &["puts", "500", "4"],
        goals: &[("puts_per_second", Goal::AtLeast(5.0)), CPU],
    },
    Load { name: "range of 10,000 keys", rounds: 1, arguments: &["range", "10000"], goals: &[] },
    Load {
        name: "1,000 watchers, 1,000 events/s",
        rounds: 1,
        arguments: &["events", "1000", "1000", "5"],
        goals: &[],
    },
    Load {
        name: "idle watches",
        rounds: 1,
        arguments: &["watches", "5000"],
        goals: &[
            ("bytes_per_watch_of_a_stream", Goal::AtMost(0.25)),
            ("bytes_per_watch_with_a_stream", Goal::AtMost(0.25)),
        ],
    },
    Load {
        name: "memory of 100,000 keys of 1 KB",
        rounds: 1,
        arguments: &["memory", "100000"],
        goals: &[],
    },
];

pub(crate) fn measure(root: &Path, ours: Ours) -> Result<()> {
    let built = build(root, ours)?;
    let etcd = std::env::var_os("XEBEC_TEST_ETCD").map_or_else(|| "etcd".into(), PathBuf::from);
    for load in LOADS {
        say(&format!("\n{}", load.name));
        let (mut theirs, mut ours) = (Figures::default(), Figures::default());
        for _ in 0..load.rounds {
            // Some loads are more than etcd takes; ours is measured all the same.
            match figures(&built.load, &Server::etcd(&etcd)?, load) {
                Ok(figures) => theirs.add(figures),
                Err(error) => {
                    let why = format!("{error:#}");
                    say(&format!("  etcd failed: {}", why.lines().next().unwrap_or_default()));
                }
            }
            ours.add(figures(&built.load, &built.serve()?, load)?);
        }
        for name in ours.0.keys() {
            let goal = load.goals.iter().find(|it| it.0 == name).map(|it| it.1);
            say(&render(name, ours.median(name), theirs.median(name), goal));
        }
    }
    check_perf(&built, &etcd)
}

/// etcd's own check, line by line, of both.
fn check_perf(built: &Built, etcd: &Path) -> Result<()> {
    let etcdctl =
        std::env::var_os("XEBEC_TEST_ETCDCTL").map_or_else(|| "etcdctl".into(), PathBuf::from);
    for (load, meaning) in perf::LOADS {
        say(&format!("\netcdctl check perf --load={load}: {meaning}"));
        for (name, server) in [("etcd", Server::etcd(etcd)?), ("ours", built.serve()?)] {
            for line in perf::verdict(&etcdctl, &server, load)? {
                say(&format!("  {name}  {line}"));
            }
        }
    }
    Ok(())
}

struct Built {
    load: PathBuf,
    server: PathBuf,
    ours: Ours,
}

impl Built {
    fn serve(&self) -> Result<Server> {
        match self.ours {
            Ours::Xebec => Server::xebec(&self.server),
            Ours::FrontAlone => Server::front(&self.server),
        }
    }
}

fn build(root: &Path, ours: Ours) -> Result<Built> {
    let cargo = |arguments: &[&str]| {
        run(Command::new("cargo").args(["build", "--release"]).args(arguments).current_dir(root))
    };
    cargo(&["--package", "etcd", "--examples"])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let release = target.join("release");
    let server = match ours {
        Ours::Xebec => {
            cargo(&["--bin", "xebec"])?;
            release.join("xebec")
        }
        Ours::FrontAlone => release.join("examples/serve"),
    };
    Ok(Built { load: release.join("examples/load"), server, ours })
}

/// Runs one load against a fresh server.
fn figures(program: &Path, server: &Server, load: &Load) -> Result<BTreeMap<String, f64>> {
    let mut command = Command::new(program);
    command.args([server.port.to_string(), server.pid().to_string()]).args(load.arguments);
    let printed = output(&mut command)?;
    let parse = |line: &str| {
        let (name, value) = line.split_once(' ').context("a name and a value")?;
        Ok((name.to_owned(), value.parse()?))
    };
    printed.lines().map(parse).collect()
}

/// What was measured under each name.
#[derive(Default)]
struct Figures(BTreeMap<String, Vec<f64>>);

impl Figures {
    fn add(&mut self, figures: BTreeMap<String, f64>) {
        for (name, figure) in figures {
            self.0.entry(name).or_default().push(figure);
        }
    }

    fn median(&self, name: &str) -> f64 {
        super::median(self.0.get(name).into_iter().flatten().copied())
    }
}

fn render(name: &str, ours: f64, theirs: f64, goal: Option<Goal>) -> String {
    let ratio = ours / theirs;
    let verdict = match goal {
        Some(Goal::AtLeast(goal)) if ratio >= goal => format!("reaches the goal of {goal}x"),
        Some(Goal::AtLeast(goal)) => format!("BELOW the goal of {goal}x"),
        Some(Goal::AtMost(goal)) if ratio <= goal => format!("within the goal of {goal}x"),
        Some(Goal::AtMost(goal)) => format!("OVER the goal of {goal}x"),
        None => String::new(),
    };
    format!("  {name:<32} {ours:>12.2}  etcd {theirs:>12.2}  {ratio:>7.2}x  {verdict}")
}
