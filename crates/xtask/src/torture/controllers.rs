//! `cargo xtask torture controllers`: whole clusters under paused time, one for each seed, while
//! nodes die, calls fail and others take over the lead.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::{root, say};

const SEEDS: u64 = 500;

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (seeds, first) = parse(words)?;
    let end = first.saturating_add(seeds);
    say(&format!("seeds {first} to {}", end.saturating_sub(1)));
    process::run(
        Command::new("cargo")
            .args(["test", "--release", "-q", "-p", "testkit", "--test", "storms"])
            .env("SEEDS", format!("{first}..{end}"))
            .current_dir(root()),
    )
}

/// How many, and the first of them: a new one each time, unless it is given.
fn parse(words: &[&str]) -> Result<(u64, u64)> {
    let (mut seeds, mut first) = (SEEDS, u64::from(std::process::id()));
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a number"))?;
        let value = value.parse().with_context(|| format!("{word} {value}: not a number"))?;
        match *word {
            "--seeds" => seeds = value,
            "--seed" => first = value,
            other => bail!("{other} is not known: --seeds N, --seed S"),
        }
    }
    Ok((seeds, first))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn seeds_are_counted_from_the_one_that_is_named() {
        assert_eq!(parse(&["--seeds", "3", "--seed", "7"]).unwrap(), (3, 7));
        assert_eq!(parse(&["--seed", "7"]).unwrap(), (super::SEEDS, 7));
        assert!(parse(&["--seeds"]).is_err());
        assert!(parse(&["many"]).is_err());
    }
}
