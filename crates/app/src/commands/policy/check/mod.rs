//! `xebec policy check`: which live objects, and which writes that the API still knows, a policy, a
//! rule of a definition or a Pod Security level would have refused. What judges them is the code
//! that the server runs, here, on what the caller may read: so it works on any cluster.

mod cluster;
mod crd;
mod findings;
mod history;
mod judge;
mod parameters;
mod plan;
mod policies;
mod render;
mod rights;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::{Result, bail};

use super::super::access::{self, Access};
use super::super::{Output, manifest, render_json};
use crate::datastore::parse_duration;
use crate::progress::say;
use cluster::Cluster;
use findings::Findings;
use plan::Plan;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// File with a ValidatingAdmissionPolicy, a MutatingAdmissionPolicy (both with or without
    /// bindings and parameters) or a CustomResourceDefinition; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    #[arg(required_unless_present = "pod_security", conflicts_with = "pod_security")]
    filename: Option<String>,
    /// Level of the Pod Security Standards, such as baseline, restricted or restricted:v1.35
    #[arg(long, value_name = "LEVEL[:VERSION]")]
    pod_security: Option<String>,
    /// Judge also the writes of this time, as far back as the API knows them
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    since: Option<Duration>,
    /// How many are shown; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// How to show it
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    output: Output,
    #[command(flatten)]
    access: access::Flags,
}

/// Ends with 1 when something would be refused.
pub(super) fn run(flags: &Flags) -> Result<()> {
    let plan = match (&flags.filename, &flags.pod_security) {
        (Some(path), _) => Plan::of(&manifest::load(path)?)?,
        (None, Some(level)) => Plan::of_pod_security(level)?,
        (None, None) => bail!("name a file by -f, or a level by --pod-security"),
    };
    let access = flags.access.load()?;
    let findings = access::block_on(async |tasks| {
        let Access { config, .. } = &access;
        let cluster = Cluster::connect(config, tasks, flags.access.namespace.clone()).await?;
        let mut findings = Findings::new(flags.limit as usize);
        cluster.check(plan, flags.since, &mut findings).await?;
        Ok(findings)
    })?;
    match flags.output {
        Output::Json => say(&render_json(&findings)?),
        Output::Text => say(&render::text(&findings)),
    }
    match findings.n_refused() {
        0 => Ok(()),
        n_refused => bail!("{n_refused} would have been refused"),
    }
}
