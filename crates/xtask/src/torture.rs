//! `cargo xtask torture store`: the long runs that try to break the store, on the release build.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::root;

/// What is asked for; a seed that is not given is a new one each time.
struct Wish {
    rounds: u64,
    seed: u64,
}

pub(crate) fn store(words: &[&str]) -> Result<()> {
    let Wish { rounds, seed } = parse(words)?;
    process::run(
        Command::new("cargo")
            .args(["run", "--release", "-q", "-p", "kvstore", "--example", "torture", "--"])
            .args([rounds.to_string(), seed.to_string()])
            .current_dir(root()),
    )
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
