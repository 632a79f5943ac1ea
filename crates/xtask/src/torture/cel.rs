//! `cargo xtask torture cel`: random typed expressions, evaluated by ours and by two other
//! implementations of the language; what is otherwise is explained, or an error.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::root;

const COUNT_DEFAULT: u64 = 1_000_000;

/// The oracles are in a folder of their own: they take longer to build than what they judge.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (count, seed) = parse(words)?;
    let folder = root().join("crates/apimachinery/oracles");
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(&folder);
        command.env("CARGO_TARGET_DIR", root().join("target/oracles"));
        command
    };
    // What is said of the oracles must hold before they are asked.
    process::run(&mut cargo(&["test", "--release", "-q"]))?;
    let (count, seed) = (count.to_string(), seed.to_string());
    process::run(&mut cargo(&["run", "--release", "-q", "--", &count, &seed]))
}

fn parse(words: &[&str]) -> Result<(u64, u64)> {
    let (mut count, mut seed) = (COUNT_DEFAULT, u64::from(std::process::id()));
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a number"))?;
        let value = value.parse().with_context(|| format!("{word} {value}: not a number"))?;
        match *word {
            "--count" => count = value,
            "--seed" => seed = value,
            other => bail!("{other} is not known: --count N, --seed S"),
        }
    }
    Ok((count, seed))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_are_read() {
        assert_eq!(parse(&["--seed", "7", "--count", "10"]).unwrap(), (10, 7));
        assert_eq!(parse(&["--seed", "7"]).unwrap(), (1_000_000, 7));
        assert!(parse(&["--count"]).is_err());
        assert!(parse(&["7"]).is_err());
    }
}
