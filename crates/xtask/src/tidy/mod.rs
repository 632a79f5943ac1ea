//! The shape of the repository as a test: what a reviewer would otherwise repeat. Reads files only.

mod documents;
mod layers;
mod lists;
mod modules;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// One broken rule: where, and what would be right.
pub(crate) struct Problem(String);

impl Problem {
    fn new(path: &Path, what: &str) -> Self {
        Self(format!("{}: {what}", path.display()))
    }
}

pub(crate) fn run(root: &Path) -> Result<()> {
    let mut sources = files(&root.join("crates"), "rs")?;
    sources.extend(files(&root.join("examples"), "rs")?);
    sources.extend(files(&root.join("tests"), "rs")?);
    let mut problems = Vec::new();
    problems.extend(layers::check(root)?);
    problems.extend(sources::check(root, &sources)?);
    problems.extend(lists::check(root)?);
    problems.extend(modules::check(root)?);
    problems.extend(documents::check(root)?);
    for problem in &problems {
        crate::say(&format!("tidy: {}", problem.0));
    }
    if !problems.is_empty() {
        bail!("tidy found {} problem(s)", problems.len());
    }
    crate::say(&format!("tidy: {} source files are in shape", sources.len()));
    Ok(())
}

/// Every file below `folder` with this extension, sorted.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?
        {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
