//! `xebec list`: the clusters of this machine.

use anyhow::Result;
use serde::Serialize;

use super::{Output, render_json};
use crate::cluster::{Known, Registry, table};
use crate::progress::{say, say_error};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to show them
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// As `-o json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    name: String,
    id: String,
    pid: Option<i32>,
    server: String,
    context: String,
    data_dir: &'a std::path::Path,
    /// Names of those on this machine.
    nodes: Vec<&'a str>,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let clusters = Registry::of_this_user().clusters()?;
    match flags.output {
        Output::Json => say(&render_json(&clusters.iter().map(row).collect::<Vec<_>>())?),
        Output::Text if clusters.is_empty() => {
            say_error("there is no cluster: start one with `xebec up`");
        }
        Output::Text => say(&table(&clusters)),
    }
    Ok(())
}

fn row(known: &Known) -> Row<'_> {
    Row {
        name: known.cluster.name.to_string(),
        id: known.cluster.id.to_string(),
        pid: known.pid,
        server: format!("https://{}", known.cluster.server()),
        context: known.cluster.name.context(),
        data_dir: &known.data_dir,
        nodes: known.cluster.nodes_here(),
    }
}
