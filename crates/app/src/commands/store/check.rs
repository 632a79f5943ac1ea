//! `xebec store check`: every byte, of a store that nobody has open or of a snapshot. Ends with 1
//! when something is wrong.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kvstore::embedded;
use serde::Serialize;

use super::super::{Output, render_json};
use super::open_stopped;
use crate::cluster::Selection;
use crate::datastore::amounts::render_size;
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Check this snapshot and not the store of the data directory
    #[arg(value_name = "SNAPSHOT")]
    file: Option<PathBuf>,
    /// How to show it
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// What was verified, or why it is wrong.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    is_sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_revision: Option<u64>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// What a crash left of writes that were never acknowledged; the next start removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    torn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) fn run(selection: &Selection, flags: &Flags) -> Result<()> {
    let checked = match &flags.file {
        Some(file) => check_snapshot(file),
        None => selection.find().and_then(|it| check_store(&it)),
    };
    match flags.output {
        Output::Json => {
            let why = checked.as_ref().err().map(|it| format!("{it:#}"));
            let failed = Report { why, ..Report::default() };
            say(&render_json(checked.as_ref().unwrap_or(&failed))?);
        }
        Output::Text => {
            if let Ok(report) = &checked {
                render(report).iter().for_each(|it| say(it));
            }
        }
    }
    checked.map(drop)
}

fn check_snapshot(file: &Path) -> Result<Report> {
    let (oldest, newest) = embedded::check_snapshot(file).context("checking the snapshot")?;
    Ok(Report {
        is_sound: true,
        revision: Some(newest.0),
        oldest_revision: Some(oldest.0),
        bytes: std::fs::metadata(file).map_or(0, |it| it.len()),
        ..Report::default()
    })
}

fn check_store(directory: &Path) -> Result<Report> {
    let data = open_stopped(directory)?;
    let found = embedded::check(&data.store()).context("checking the store")?;
    Ok(Report {
        is_sound: true,
        revision: Some(found.revision.0),
        oldest_revision: Some(found.oldest.0),
        bytes: found.bytes,
        keys: Some(found.n_keys),
        hash: Some(format!("{:016x}", found.hash)),
        torn: found.torn,
        why: None,
    })
}

fn render(report: &Report) -> Vec<String> {
    let (oldest, newest) = (report.oldest_revision.unwrap_or(0), report.revision.unwrap_or(0));
    let keys = report.keys.map(|it| format!(", {it} keys")).unwrap_or_default();
    let size = render_size(report.bytes);
    let mut lines = vec![format!("sound: revisions {oldest} to {newest}{keys}, {size} verified")];
    if let Some(torn) = &report.torn {
        lines.push(format!("{torn} were never acknowledged; the next start removes them"));
    }
    lines
}
