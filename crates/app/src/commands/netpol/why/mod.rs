//! `xebec netpol why FROM TO:PORT`: the decision of the nodes at both ends, made here by the same
//! code, on what the caller may read: so it works on any cluster whose policies are enforced.

mod cluster;
mod question;
mod render;

use anyhow::{Result, bail};
use network::policy::why::explain;

use super::super::access::{self, Access};
use crate::progress::say;
use question::Question;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// FROM TO:PORT[/PROTOCOL], or 'FROM -> TO:PORT' in quotes: who asks whom is a pod, as
    /// NAMESPACE/POD or POD, or an address; the port is a number or the name that the pod gives it
    #[arg(value_name = "FROM TO:PORT", required = true)]
    question: Vec<String>,
    #[command(flatten)]
    access: access::Flags,
}

/// Ends with 1 when the connection is denied.
pub(super) fn run(flags: &Flags) -> Result<()> {
    let access = flags.access.load()?;
    let Access { config, namespace } = &access;
    let question = Question::parse(&flags.question, namespace)?;
    let objects = access::block_on(async |tasks| cluster::read(config, tasks, &question).await)?;
    let port = question.port_number(&objects)?;
    let answers = explain(&objects, (&question.from, &question.to), (question.protocol, port));
    if answers.is_empty() {
        bail!("{question} have no addresses of one family yet");
    }
    answers.iter().for_each(|it| say(&render::answer(&question, it)));
    match answers.iter().all(network::policy::why::Answer::allows) {
        true => Ok(()),
        false => bail!("denied"),
    }
}
