//! `xebec store check`: every byte, of a store that nobody has open or of a snapshot. Ends with 1 when something is wrong.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kvstore::embedded;
use serde::Serialize;

use super::{Output, open_stopped, render_json};
use crate::datastore::amounts::render_size;
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Check this snapshot and not the store of the data directory
    #[arg(value_name = "SNAPSHOT")]
    file: Option<PathBuf>,
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// What was verified, or why it is wrong.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    is_sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) fn run(directory: &Path, flags: &Flags) -> Result<()> {
    let checked = check(directory, flags.file.as_deref());
    if flags.output == Output::Json {
        let report = checked.as_ref().map_or_else(failed, passed);
        say(&render_json(&report)?);
    }
    let status = checked?;
    if flags.output == Output::Text {
        say(&format!(
            "sound: revisions {} to {}, {} keys, {} verified",
            status.oldest.0,
            status.revision.0,
            status.n_keys,
            render_size(status.bytes)
        ));
    }
    Ok(())
}

fn check(directory: &Path, file: Option<&Path>) -> Result<kvstore::Status> {
    match file {
        Some(file) => embedded::check_snapshot(file)
            .with_context(|| format!("checking the snapshot {}", file.display())),
        None => {
            let data = open_stopped(directory)?;
            embedded::check(&data.store())
                .with_context(|| format!("checking the store in {}", data.store().display()))
        }
    }
}

fn passed(status: &kvstore::Status) -> Report {
    Report {
        is_sound: true,
        revision: Some(status.revision.0),
        oldest_revision: Some(status.oldest.0),
        keys: Some(status.n_keys),
        bytes: Some(status.bytes),
        hash: status.hash.map(|it| format!("{it:016x}")),
        why: None,
    }
}

fn failed(err: &anyhow::Error) -> Report {
    Report {
        is_sound: false,
        revision: None,
        oldest_revision: None,
        keys: None,
        bytes: None,
        hash: None,
        why: Some(format!("{err:#}")),
    }
}
