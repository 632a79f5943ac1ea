//! Rules about source files: a header on each, no vague names, no hidden environment, no unordered
//! `select!`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Problem, read};

const VAGUE: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "manager"];

pub(super) fn check(root: &Path, sources: &[PathBuf]) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for path in sources {
        let text = read(path)?;
        let path = path.strip_prefix(root).unwrap_or(path);
        if !text.starts_with("//!") {
            problems.push(Problem::new(path, "starts with a header: `//! what it is for`"));
        }
        if path.file_stem().is_some_and(|it| VAGUE.iter().any(|vague| it == *vague)) {
            problems.push(Problem::new(path, "name says nothing; name the thing"));
        }
        problems.extend(check_lines(path, &text));
    }
    Ok(problems)
}

fn check_lines(path: &Path, text: &str) -> Vec<Problem> {
    let in_crate = |name: &str| path.starts_with(format!("crates/{name}"));
    let is_test = path.components().any(|it| it.as_os_str() == "tests")
        || path.file_stem().is_some_and(|it| it == "tests");
    // A build script is given its folders by Cargo in no other way.
    let is_build = path.file_name().is_some_and(|it| it == "build.rs");
    let mut problems = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let code = line.split("//").next().unwrap_or("");
        let mut report =
            |what: &str| problems.push(Problem::new(path, &format!("line {}: {what}", number + 1)));
        if code.contains("env::var")
            && !in_crate("app")
            && !in_crate("xtask")
            && !is_test
            && !is_build
        {
            report("only `app` reads the environment");
        }
        if code.contains(concat!("tokio::", "select! {"))
            && lines.peek().is_none_or(|(_, next)| next.trim() != "biased;")
        {
            report("`select!` starts with `biased;`, so that simulations repeat");
        }
        if line.contains("TODO") && !line.contains("TODO(#") && !in_crate("xtask") {
            report("a TODO names its issue: TODO(#12)");
        }
    }
    problems
}
