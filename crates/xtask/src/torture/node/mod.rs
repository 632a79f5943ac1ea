//! `cargo xtask torture node`: containers, their logs and their exit codes outlive `xebec`, whatever
//! happens to it: an upgrade, `kill -9` again and again, holders that stop for a while. The real
//! binary, in a network namespace of its own. Needs root and kubectl.

mod freeze;
mod host;
mod kills;
mod upgrade;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::{root, say};

/// What is asked for.
struct Wish {
    rounds: usize,
    pods: usize,
    freeze: u64,
    /// What pods are taken over from.
    from: Option<String>,
    profile: Profile,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    Debug,
    Release,
}

/// `--from none` leaves the upgrade out.
const NONE: &str = "none";

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let wish = parse(words)?;
    let from = match &wish.from {
        Some(it) if it == NONE => None,
        Some(revision) => Some(revision.clone()),
        None => Some(newest_tag()?),
    };
    let old = from.map(|it| upgrade::build(&it, wish.profile)).transpose()?;
    let binary = build(&root(), wish.profile)?;
    if let Some(old) = old {
        upgrade::run(&old, &binary, wish.pods.min(10))?;
    }
    kills::run(&binary, wish.pods, wish.rounds)?;
    freeze::run(&binary, wish.pods, wish.freeze)
}

fn newest_tag() -> Result<String> {
    let mut describe = Command::new("git");
    describe.args(["describe", "--tags", "--abbrev=0"]).current_dir(root());
    let tag = process::output(&mut describe).with_context(|| {
        format!("there is no tag to upgrade from: name a revision with --from REV, or leave that part out with --from {NONE}")
    })?;
    Ok(tag.trim().to_owned())
}

/// The program of the repository in `directory`. Builds share their dependencies, so whoever needs
/// two versions copies the first away.
fn build(directory: &std::path::Path, profile: Profile) -> Result<PathBuf> {
    let target = target();
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--bin", "xebec"]).current_dir(directory).env("CARGO_TARGET_DIR", &target);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    process::run(&mut cargo)?;
    let folder = if profile == Profile::Release { "release" } else { "debug" };
    Ok(target.join(folder).join("xebec"))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn parse(words: &[&str]) -> Result<Wish> {
    let mut wish =
        Wish { rounds: 1000, pods: 50, freeze: 30, from: None, profile: Profile::Release };
    let number = |name: &str, text: &str| {
        text.parse().with_context(|| format!("{name} {text}: not a number"))
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match *word {
            "--debug" => wish.profile = Profile::Debug,
            "--from" => wish.from = Some((*value()?).to_owned()),
            "--pods" => wish.pods = number("--pods", value()?)?,
            "--freeze" => wish.freeze = u64::try_from(number("--freeze", value()?)?)?,
            other if other.starts_with('-') => {
                bail!("{other} is not known: [ROUNDS] --from REV --pods N --freeze SECONDS --debug")
            }
            rounds => wish.rounds = number("ROUNDS", rounds)?,
        }
    }
    if wish.pods == 0 {
        bail!("--pods 0: there must be something to lose");
    }
    say(&format!(
        "{} pods, {} kills, holders stopped for {} s",
        wish.pods, wish.rounds, wish.freeze
    ));
    Ok(wish)
}
