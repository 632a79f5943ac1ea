//! Going to the background: the process starts itself again in a session of its own, shows what that one says until it is ready,
//! and leaves.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::data_dir;
use crate::progress::say;

/// The last line that the background process says to its parent.
const READY: &str = "xebec is ready in the background";

/// In the foreground: starts the background process and returns when the cluster is ready.
pub(crate) fn start(data_dir: &Path) -> Result<()> {
    data_dir::make_private(data_dir)
        .with_context(|| format!("cannot use the data directory {}", data_dir.display()))?;
    let path = data_dir::log_file(data_dir);
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(0o600)
        .custom_flags(data_dir::NO_FOLLOW)
        .open(&path)
        .with_context(|| format!("opening {}", path.display()))?;
    let said_before = log.seek(SeekFrom::End(0)).unwrap_or(0);
    let mut child = Command::new(std::env::current_exe().context("finding this program")?)
        .args(std::env::args_os().skip(1))
        .arg("--detached-child")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone().context("sharing the log file")?)
        .spawn()
        .context("starting in the background")?;
    let stdout = child.stdout.take().context("standard output is piped")?;
    for line in BufReader::new(stdout).lines() {
        match line {
            Ok(line) if line == READY => return Ok(()),
            Ok(line) => say(&line),
            Err(_) => break,
        }
    }
    let status = child.wait().context("waiting for the background process")?;
    let _ = log.seek(SeekFrom::Start(said_before));
    let said: Vec<String> = BufReader::new(log).lines().map_while(Result::ok).collect();
    bail!("the cluster did not start ({status}): {}", said.join("\n").trim_start_matches("error: "))
}

/// In the background: tells the parent, then lets go of its terminal and pipe.
pub(crate) fn ready() -> Result<()> {
    say(READY);
    let null =
        OpenOptions::new().read(true).write(true).open("/dev/null").context("opening /dev/null")?;
    rustix::stdio::dup2_stdout(&null).context("closing standard output")
}

/// In the background, before anything else: signals to the parent's terminal must not reach this process.
pub(crate) fn leave_terminal() {
    // Fails only for a process that leads a group already: then there is nothing to leave.
    let _ = rustix::process::setsid();
}
