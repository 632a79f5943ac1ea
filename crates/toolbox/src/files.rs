//! The few things one does with files when looking around in a pod.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

#[derive(clap::Args)]
pub(crate) struct Paths {
    paths: Vec<PathBuf>,
}

pub(crate) fn cat(arguments: &Paths) -> Result<()> {
    let mut out = io::stdout().lock();
    if arguments.paths.is_empty() {
        io::copy(&mut io::stdin().lock(), &mut out).context("copying standard input")?;
    }
    for path in &arguments.paths {
        let copy = File::open(path).and_then(|mut it| io::copy(&mut it, &mut out));
        copy.with_context(|| format!("cat: {}", path.display()))?;
    }
    Ok(())
}

pub(crate) fn ls(arguments: &Paths) -> Result<()> {
    let here = [PathBuf::from(".")];
    let paths = if arguments.paths.is_empty() { &here[..] } else { &arguments.paths };
    for path in paths {
        let failed = || format!("ls: {}", path.display());
        if !fs::metadata(path).with_context(failed)?.is_dir() {
            println!("{}", path.display());
            continue;
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(path).with_context(failed)? {
            names.push(entry.with_context(failed)?.file_name());
        }
        names.sort();
        for name in names {
            println!("{}", name.to_string_lossy());
        }
    }
    Ok(())
}

pub(crate) fn touch(arguments: &Paths) -> Result<()> {
    for path in &arguments.paths {
        let opened = File::options().create(true).append(true).open(path);
        opened.with_context(|| format!("touch: {}", path.display()))?;
    }
    Ok(())
}

pub(crate) fn rm(arguments: &Paths) -> Result<()> {
    for path in &arguments.paths {
        fs::remove_file(path).with_context(|| format!("rm: {}", path.display()))?;
    }
    Ok(())
}

/// As the kernel has it: what this process was started with.
pub(crate) fn environment() -> Result<()> {
    let variables = fs::read("/proc/self/environ").context("env: /proc/self/environ")?;
    for variable in variables.split(|it| *it == 0).filter(|it| !it.is_empty()) {
        println!("{}", String::from_utf8_lossy(variable));
    }
    Ok(())
}
