//! `xebec proxy`: the service proxy alone, over HTTPS.

mod flags;
mod start;

use anyhow::{Context as _, Result, ensure};

use super::remote;
use crate::progress::say;
use crate::{node, serve};

pub(crate) use flags::Flags;

pub(crate) fn run(flags: Flags) -> Result<()> {
    let configuration = flags.configuration()?;
    let component = flags
        .component
        .clone()
        .or_file(&configuration.logging.format, &configuration.feature_gates)?;
    component.start_logging(configuration.logging.verbosity());
    let plan = start::Plan::new(&flags, &configuration, component.registry())?;
    ensure!(
        rustix::process::geteuid().is_root(),
        "rules for Services need root: start with `sudo`"
    );
    if flags.cleanup {
        service_proxy::purge(plan.cluster).context("removing the rules for Services")?;
        let worker = start::worker(plan.cluster).directory;
        packets::purge(&worker).context("ending the worker of this proxy")?;
        say("the rules for Services of this node are removed");
        return Ok(());
    }
    serve::run(|tasks| async move {
        let name = plan.node_name.clone();
        start::start(plan, &configuration, &tasks).await?;
        say(&format!("proxy of node {name} ready"));
        Ok(())
    })
}
