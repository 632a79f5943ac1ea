//! The last words of a container: what it wrote to its termination log, or the end of its output.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use node_api::containers::Exit;

use crate::disk;

/// Upstream's bounds (pkg/kubelet/kuberuntime): of the file, and of the log's end.
const FILE_MAX: u64 = 4096;
const LOG_MAX: usize = 2048;
const LOG_LINES_MAX: usize = 80;
/// Enough for that many bytes of text with the prefixes of their lines.
const LOG_READ: u64 = 16 * 1024;

/// One for each run.
pub(super) fn path(pod_directory: &Path, container: &str, attempt: u32) -> PathBuf {
    pod_directory.join("containers").join(container).join(format!("{attempt}.termination"))
}

/// Empty when it had nothing to say. Reads a few kilobytes of local files.
pub(super) fn read(container: &Container, exit: &Exit, file: &Path, log: &Path) -> String {
    let written = disk::read_start(file, FILE_MAX).unwrap_or_default();
    if !written.is_empty() {
        return String::from_utf8_lossy(&written).into_owned();
    }
    let policy = container.termination_message_policy.as_deref();
    if policy == Some("FallbackToLogsOnError") && exit.code != 0 {
        let end = disk::read_end(log, LOG_READ).unwrap_or_default();
        return last_lines(&String::from_utf8_lossy(&end));
    }
    String::new()
}

/// The text of lines such as `2026-01-01T00:00:00Z stdout F text`, without what a read in the
/// middle cut off.
fn last_lines(log: &str) -> String {
    let texts: Vec<String> = log
        .split_inclusive('\n')
        .filter_map(|line| {
            let mut fields = line.splitn(4, ' ');
            let (_time, stream, tag) = (fields.next()?, fields.next()?, fields.next()?);
            if !matches!(stream, "stdout" | "stderr") {
                return None;
            }
            let text = fields.next().unwrap_or("\n");
            let is_partial = tag.starts_with('P');
            Some(if is_partial { text.trim_end_matches('\n') } else { text }.to_owned())
        })
        .collect();
    let skip = texts.len().saturating_sub(LOG_LINES_MAX);
    let text: String = texts.into_iter().skip(skip).collect();
    let mut start = text.len().saturating_sub(LOG_MAX);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{LOG_MAX, last_lines};

    #[test]
    fn the_end_of_a_log_is_its_text_alone() {
        let log = "cut off\n2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:01Z stderr P tw\n2026-01-01T00:00:01Z stderr F o\n";
        assert_eq!(last_lines(log), "one\ntwo\n");
        let line = "2026-01-01T00:00:00Z stdout F ab\n";
        assert_eq!(last_lines(&line.repeat(100)).lines().count(), 80);
        let long = format!("2026-01-01T00:00:00Z stdout F {}\n", "é".repeat(LOG_MAX));
        assert!(last_lines(&long).len() <= LOG_MAX);
    }
}
