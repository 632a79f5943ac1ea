//! Going to the background: the process starts itself again in a session of its own, shows what
//! that one says until it is ready, and leaves. What the other one cannot do, this one tells.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::data_dir;
use crate::progress::{say, say_error};

/// The last line that the background process says to its parent.
const READY: &str = "xebec is ready in the background";
/// More of what went wrong than anybody reads.
const REASON_MAX: u64 = 64 << 10;

/// In the foreground: starts the background process and returns when the cluster is ready.
pub(crate) fn start() -> Result<()> {
    start_with(Stdio::null())
}

/// The same for one that has something to read.
pub(crate) fn start_with(stdin: Stdio) -> Result<()> {
    let mut child = Command::new(std::env::current_exe().context("finding this program")?)
        .args(std::env::args_os().skip(1))
        .arg("--detached-child")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting in the background")?;
    let Followed { is_ready, said } = follow(&mut child, say)?;
    if is_ready {
        if !said.is_empty() {
            say_error(&said);
        }
        return Ok(());
    }
    let status = child.wait().context("waiting for the background process")?;
    match said.trim_start_matches("error: ") {
        "" => bail!("the cluster did not start: its process ended ({status})"),
        reason => bail!("the cluster did not start: {reason}"),
    }
}

/// What came of a process in the background.
pub(crate) struct Followed {
    pub(crate) is_ready: bool,
    /// What it complained about.
    pub(crate) said: String,
}

/// Returns when it is ready, or will never be. Its streams are pipes.
pub(crate) fn follow(child: &mut Child, heard: impl Fn(&str)) -> Result<Followed> {
    let stdout = child.stdout.take().context("standard output is piped")?;
    let stderr = child.stderr.take().context("standard error is piped")?;
    let complaints = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.take(REASON_MAX).read_to_string(&mut text);
        text
    });
    let mut is_ready = false;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if line == READY {
            is_ready = true;
            break;
        }
        heard(&line);
    }
    let said = complaints.join().unwrap_or_default();
    Ok(Followed { is_ready, said: said.trim().to_owned() })
}

/// In the background: the process that waits in the foreground, until it is told.
pub(crate) struct Parent {
    /// What was standard error before the log.
    stderr: File,
}

impl Parent {
    /// From now on the log is in the data directory. Signals to the parent's terminal must not
    /// reach this process.
    pub(crate) fn leave(data_dir: &Path) -> Result<Self> {
        // Fails only for a process that leads a group already: then there is nothing to leave.
        let _ = rustix::process::setsid();
        let path = data_dir::log_file(data_dir);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(data_dir::NO_FOLLOW)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        let stderr = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 3)
            .context("keeping standard error")?;
        rustix::stdio::dup2_stderr(&log).context("logging to a file")?;
        Ok(Self { stderr: stderr.into() })
    }

    /// Why there will be no cluster.
    pub(crate) fn fail(mut self, err: &anyhow::Error) {
        // It may be gone.
        let _ = writeln!(self.stderr, "{err:#}");
    }

    /// The cluster is ready: lets go of the terminal and the pipes.
    pub(crate) fn ready(self) -> Result<()> {
        say(READY);
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
            .context("opening /dev/null")?;
        rustix::stdio::dup2_stdout(&null).context("closing standard output")
    }
}
