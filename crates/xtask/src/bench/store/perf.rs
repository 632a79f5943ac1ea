//! `etcdctl check perf`: etcd's own verdict about a server, on ours and on etcd. A minute for each
//! load.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::server::Server;

/// Its names for loads, and what they are (`etcdctl check perf --help`).
pub(super) const LOADS: &[(&str, &str)] = &[
    ("s", "150 writes/s by 50 clients"),
    ("m", "1,000 writes/s by 200 clients"),
    ("l", "8,000 writes/s by 500 clients"),
    ("xl", "15,000 writes/s by 1,000 clients"),
];

/// What it says at the end: throughput, the slowest request, the deviation, and all in all.
pub(super) fn verdict(etcdctl: &Path, server: &Server, load: &str) -> Result<Vec<String>> {
    let output = Command::new(etcdctl)
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &format!("http://127.0.0.1:{}", server.port)])
        .args(["check", "perf", &format!("--load={load}")])
        .output()
        .with_context(|| format!("starting {}", etcdctl.display()))?;
    // It ends with 1 when the verdict is FAIL.
    let lines = verdict_lines(&String::from_utf8_lossy(&output.stdout));
    if lines.is_empty() {
        bail!("no verdict: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(lines)
}

/// The lines after the bar, which is drawn over itself on one line, with the first verdict right
/// behind it.
fn verdict_lines(printed: &str) -> Vec<String> {
    let last = printed.rsplit('\r').next().unwrap_or_default();
    let begin = ["PASS", "FAIL", "Slowest"].iter().filter_map(|it| last.find(it)).min();
    let verdict = begin.map_or("", |it| &last[it..]);
    verdict.lines().filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::verdict_lines;

    #[test]
    fn the_verdict_follows_the_bar() {
        let printed = " 1 / 60   1.67% 00m59s\r 59 / 60   98.33%FAIL: Throughput too low: 125 writes/s\n\
            Slowest request took too long: 0.707136s\nPASS: Stddev is 0.037370s\nFAIL\n";
        let expected = [
            "FAIL: Throughput too low: 125 writes/s",
            "Slowest request took too long: 0.707136s",
            "PASS: Stddev is 0.037370s",
            "FAIL",
        ];
        assert_eq!(verdict_lines(printed), expected);
        assert!(verdict_lines(" 59 / 60   98.33%").is_empty());
    }
}
