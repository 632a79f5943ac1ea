//! `xebec store`: looking after the embedded store of a data directory. What a running server can
//! do for itself is asked of it; the rest needs it stopped, and says so.

mod check;
mod compact;
mod restore;
mod serve;
mod snapshot;
mod status;

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use kvstore::embedded::{Embedded, Options};

use crate::cluster::Selection;
use crate::data_dir::{self, DataDir};
use crate::datastore::socket::{self, Answer, Request};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    selection: Selection,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Write everything into one file, history included; a running cluster goes on meanwhile
    Snapshot(snapshot::Flags),
    /// Make a store from a snapshot, as it was last or at a revision
    Restore(restore::Flags),
    /// Show revision, size and condition
    Status(status::Flags),
    /// Forget history now, before its time
    Compact(compact::Flags),
    /// Verify every byte of a store, or of a snapshot
    Check(check::Flags),
    /// Serve the store to etcd's clients
    Serve(serve::Flags),
}

pub(crate) fn run(flags: Flags) -> Result<()> {
    let selection = flags.selection;
    match flags.command {
        Command::Snapshot(flags) => snapshot::run(&selection.find()?, &flags),
        Command::Restore(flags) => restore::run(&selection.find_or_default()?, &flags),
        Command::Status(flags) => status::run(&selection.find()?, &flags),
        Command::Compact(flags) => compact::run(&selection.find()?, &flags),
        Command::Check(flags) => check::run(&selection, &flags),
        Command::Serve(flags) => serve::run(selection.find_or_default()?, flags),
    }
}

/// Has the request carried out by the server that runs on the directory; without one, here.
fn ask(directory: &Path, request: Request) -> Result<Answer> {
    let answer = match data_dir::running(directory)? {
        Some(_) => socket::ask(directory, &request)?,
        None => {
            let data = open_stopped(directory)?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("starting the tokio runtime")?;
            runtime.block_on(async {
                let store = Embedded::open(&data.store(), Options::default())
                    .with_context(|| format!("opening the store in {}", data.store().display()))?;
                let answer = socket::carry_out(&store, request).await;
                store.close().await;
                anyhow::Ok(answer)
            })?
        }
    };
    match answer {
        Answer::Refused { why } => bail!(why),
        answer => Ok(answer),
    }
}

/// A directory with a store in it that nobody has open.
fn open_stopped(directory: &Path) -> Result<DataDir> {
    if let Some(pid) = data_dir::running(directory)? {
        bail!(
            "a cluster runs on {directory} (process {pid}): stop it first, with `xebec down --data-dir {directory}`",
            directory = directory.display(),
            pid = pid.as_raw_nonzero()
        );
    }
    let data = DataDir::open(directory)?;
    if !data.store().exists() {
        bail!("there is no store in {}", directory.display());
    }
    Ok(data)
}

fn unexpected() -> anyhow::Error {
    anyhow::anyhow!("the running server answered something else; is it of another version?")
}
