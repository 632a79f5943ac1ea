//! Every folder of a kind, a controller or a plugin appears in the list beside it: nothing is forgotten.

use std::path::Path;

use anyhow::Result;

use super::{Problem, read};

/// Folder of folders, and the file that must declare each of them as a module.
const LISTED: &[&str] = &[
    "crates/api/src",
    "crates/api/src/core",
    "crates/api/src/apps",
    "crates/api/src/rbac",
    "crates/api/src/authentication",
    "crates/api/src/authorization",
    "crates/api/src/coordination",
    "crates/api/src/discovery",
    "crates/api/src/apiextensions",
    "crates/controllers/src",
    "crates/scheduler/src/plugins",
    "crates/admission/src/plugins",
];

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for folder in LISTED {
        let folder = root.join(folder);
        let list =
            [folder.join("mod.rs"), folder.join("lib.rs")].into_iter().find(|it| it.exists());
        let Some(list) = list else {
            problems.push(Problem::new(&folder, "has no mod.rs or lib.rs that lists its parts"));
            continue;
        };
        let text = read(&list)?;
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !text.contains(&format!("mod {name};")) {
                problems.push(Problem::new(&path, &format!("is not listed in {}", list.display())));
            }
        }
    }
    Ok(problems)
}
