//! `xebec admit`: what admission would do about the objects of a file, plugin by plugin, policy by
//! policy, webhook by webhook. Nothing is stored: the server is asked for dry runs, and to explain
//! them.

mod ask;
mod hints;
mod render;
#[cfg(test)]
mod tests;

use admission::observer::{Report, Verdict};
use anyhow::{Result, bail};
use serde::Serialize;

use super::access::{self, Access};
use super::manifest;
use super::{Output, render_json};
use crate::progress::say;
use ask::{Explaining, Target};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// File with the objects, YAML or JSON; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    filename: String,
    /// What would be done with them; else what there is not is created, and the rest updated
    #[arg(long, value_name = "OPERATION")]
    operation: Option<Operation>,
    /// How to show it
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    output: Output,
    #[command(flatten)]
    access: access::Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Operation {
    /// Create the object
    Create,
    /// Apply the object to the one that is there
    Update,
    /// Delete the object
    Delete,
}

/// What came of one object: explained, or refused before admission.
#[derive(Serialize)]
struct Outcome {
    object: Target,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Outcome {
    fn is_refused(&self) -> bool {
        self.report.as_ref().is_none_or(|it| it.verdict == Verdict::Refused)
    }
}

/// Ends with 1 when one of the objects would be refused.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let documents = manifest::load(&flags.filename)?;
    let access = flags.access.load()?;
    let outcomes = access::block_on(async |tasks| {
        let Access { config, namespace } = &access;
        let explaining = Explaining::connect(config, tasks).await?;
        let mut outcomes = Vec::new();
        for document in &documents {
            let target = explaining.target(document, (namespace, &flags.access.namespace))?;
            outcomes.push(explaining.ask(target, document, flags.operation).await?);
        }
        Ok(outcomes)
    })?;
    match flags.output {
        Output::Json => say(&render_json(&outcomes)?),
        Output::Text => outcomes.iter().for_each(|it| say(&render::outcome(it))),
    }
    match outcomes.iter().filter(|it| it.is_refused()).count() {
        0 => Ok(()),
        n_refused => bail!("{n_refused} of {} objects would be refused", outcomes.len()),
    }
}
