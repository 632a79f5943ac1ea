//! Documents stay true: every crate is in ARCHITECTURE.md, and relative links lead somewhere.

use std::path::Path;

use anyhow::Result;

use super::{Problem, files, read};

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let architecture = read(&root.join("ARCHITECTURE.md"))?;
    for entry in std::fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !architecture.contains(&format!("`{name}`")) {
            problems.push(Problem::new(
                Path::new("ARCHITECTURE.md"),
                &format!("does not describe the crate `{name}`"),
            ));
        }
    }
    for document in files(root, "md")? {
        for link in links(&read(&document)?) {
            let target = document.parent().unwrap_or(root).join(&link);
            if !target.exists() {
                problems.push(Problem::new(
                    &document,
                    &format!("links to {link}, which does not exist"),
                ));
            }
        }
    }
    Ok(problems)
}

/// Targets of `](...)` that are files: no schemes, anchors cut off.
fn links(text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|it| it.split(')').next())
        .filter_map(|it| it.split('#').next())
        .filter(|it| !it.is_empty() && !it.contains("://") && !it.contains(' '))
        .map(str::to_owned)
        .collect()
}
