//! The process itself: gives up what it may, then serves its nodes until nothing is left to carry.
//! One thread.

mod complaints;
mod privileges;
mod serve;
mod state;

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use linux::seqpacket::Listener;
use tokio::task::LocalSet;

/// What the worker's end breaks is more than what its memory is worth.
const OOM_SCORE_ADJ: &str = "-998";

/// The listening socket is standard input. Returns when nothing is left to carry.
pub fn run() -> ExitCode {
    match try_to_run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_to_run() -> io::Result<()> {
    let listener = take_listener()?;
    // Whoever leads a group of processes stays in its session.
    let _ = linux::process::new_session();
    // Lowering needs CAP_SYS_RESOURCE; without it the worker is as likely to be killed as others.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    linux::process::raise_descriptor_limit()?;
    let n_files = linux::process::descriptor_limit();
    let owner = rustix::process::geteuid();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    privileges::give_up()?;
    LocalSet::new().block_on(&runtime, serve::serve(listener, owner.as_raw(), n_files))
}

/// Moves it away from standard input, and closes what was given besides.
fn take_listener() -> io::Result<Listener> {
    // Somebody may have started this by hand.
    rustix::net::sockopt::socket_acceptconn(io::stdin())?;
    let listener = io::stdin().as_fd().try_clone_to_owned()?;
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(Listener::from(listener))
}
