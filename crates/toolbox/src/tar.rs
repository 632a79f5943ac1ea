//! `tar`: the ways `kubectl cp` calls it: `tar cf - PATH` and `tar -xmf - [-C DIR]`.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Letters as in `tar cf -`: c to pack, x to unpack, f for the archive, which must be `-`
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Call {
    Pack { directory: PathBuf, paths: Vec<PathBuf> },
    Unpack { directory: PathBuf, keeps_owner: bool },
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    match parse(&flags.words)? {
        Call::Pack { directory, paths } => pack(&directory, &paths),
        Call::Unpack { directory, keeps_owner } => {
            let mut archive = tar::Archive::new(io::stdin().lock());
            archive.set_preserve_ownerships(keeps_owner);
            archive.set_preserve_permissions(true);
            archive.unpack(&directory).with_context(|| format!("tar: {}", directory.display()))
        }
    }
}

fn parse(words: &[String]) -> Result<Call> {
    let mut words = words.iter();
    let letters = words.next().context("tar: what to do? c or x")?;
    let mut directory = PathBuf::from(".");
    let mut paths = Vec::new();
    let mut keeps_owner = true;
    while let Some(word) = words.next() {
        match word.as_str() {
            "-" | "--no-same-permissions" => {}
            "--no-same-owner" => keeps_owner = false,
            "-C" => directory = words.next().context("tar: -C needs a directory")?.into(),
            "--" => {}
            word if word.starts_with('-') => bail!("tar: {word} is not possible"),
            word => paths.push(PathBuf::from(word)),
        }
    }
    let letters = letters.trim_start_matches('-');
    match letters.chars().next() {
        Some('c') => Ok(Call::Pack { directory, paths }),
        Some('x') => Ok(Call::Unpack { directory, keeps_owner }),
        _ => bail!("tar: {letters:?} is not possible, only c and x"),
    }
}

/// Names in the archive are relative: a leading `/` is left away, as tar does.
fn pack(directory: &Path, paths: &[PathBuf]) -> Result<()> {
    let mut archive = tar::Builder::new(io::stdout().lock());
    archive.follow_symlinks(false);
    for path in paths {
        let source = directory.join(path);
        let name = path.strip_prefix("/").unwrap_or(path);
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        let failed = || format!("tar: {}", source.display());
        if source.symlink_metadata().with_context(failed)?.is_dir() {
            archive.append_dir_all(name, &source).with_context(failed)?;
        } else {
            archive.append_path_with_name(&source, name).with_context(failed)?;
        }
    }
    archive.finish().context("tar: finishing the archive")
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn check(line: &str, expected: &str) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let actual = parse(&words).map_or_else(|err| err.to_string(), |it| format!("{it:?}"));
        assert_eq!(actual, expected);
    }

    #[test]
    fn the_calls_of_kubectl_cp_are_understood() {
        check("cf - /tmp/a", r#"Pack { directory: ".", paths: ["/tmp/a"] }"#);
        check("-xmf -", r#"Unpack { directory: ".", keeps_owner: true }"#);
        check("-xmf - -C /tmp", r#"Unpack { directory: "/tmp", keeps_owner: true }"#);
        check("--no-same-owner", r#"tar: "no-same-owner" is not possible, only c and x"#);
        check("tvf -", r#"tar: "tvf" is not possible, only c and x"#);
        check("-xmf - -C", "tar: -C needs a directory");
    }
}
