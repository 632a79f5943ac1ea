//! The test programs of the workspace, as Cargo builds them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binary {
    /// Of the target, with that of its package: `kvstore --lib`, `app --test node`.
    pub(super) name: String,
    pub(super) program: PathBuf,
    /// Where Cargo runs it.
    pub(super) directory: PathBuf,
}

pub(super) fn build(root: &Path) -> Result<Vec<Binary>> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit());
    let messages = process::output(&mut cargo)?;
    messages.lines().filter_map(|line| read(line).transpose()).collect()
}

/// What a line of Cargo's messages says of a test program, if it does.
fn read(line: &str) -> Result<Option<Binary>> {
    let message: Value = serde_json::from_str(line).context("reading what cargo says")?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let Some(program) = message["executable"].as_str().filter(|_| is_test) else {
        return Ok(None);
    };
    let manifest = message["manifest_path"].as_str().context("a package has a manifest")?;
    let directory = Path::new(manifest).parent().context("a manifest is in a folder")?;
    let package = directory.file_name().unwrap_or_default().to_string_lossy();
    let target = message["target"]["name"].as_str().unwrap_or_default();
    let name = match message["target"]["kind"][0].as_str() {
        Some("lib") => format!("{package} --lib"),
        Some(kind) => format!("{package} --{kind} {target}"),
        None => format!("{package} {target}"),
    };
    Ok(Some(Binary { name, program: program.into(), directory: directory.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, is_test: bool, expected: Option<&str>) {
        let line = format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/x/crates/kvstore/Cargo.toml",
            "target":{{"kind":["{kind}"],"name":"crash"}},"profile":{{"test":{is_test}}},
            "executable":"/x/target/crash-1"}}"#
        );
        let found = read(&line.replace('\n', "")).unwrap();
        assert_eq!(found.as_ref().map(|it| it.name.as_str()), expected);
        if let Some(found) = found {
            assert_eq!(found.directory, Path::new("/x/crates/kvstore"));
        }
    }

    #[test]
    fn test_programs_are_told_from_what_else_is_built() {
        check("lib", true, Some("kvstore --lib"));
        check("test", true, Some("kvstore --test crash"));
        check("bin", true, Some("kvstore --bin crash"));
        check("bin", false, None);
        assert_eq!(read(r#"{"reason":"build-finished","success":true}"#).unwrap(), None);
    }
}
