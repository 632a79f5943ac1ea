//! `xebec kubelet`: the kubelet alone, over HTTPS.

mod client;
mod flags;
mod serving;
mod start;
mod state;

use anyhow::{Result, bail};

use crate::component_config::kubelet::KubeletConfiguration;
use crate::data_dir::DataDir;
use crate::progress::say;
use crate::{node, serve};

pub(crate) use flags::Flags;

pub(crate) fn run(flags: Flags) -> Result<()> {
    let configuration = flags.configuration()?;
    flags.validate()?;
    validate(&configuration)?;
    node::check_requirements()?;
    let component = flags
        .component
        .clone()
        .or_file(&configuration.logging.format, &configuration.feature_gates)?;
    component.start_logging(configuration.logging.verbosity());
    if flags.cleanup {
        return clean_up(&flags);
    }
    serve::run(|tasks| async move {
        let metrics = component.registry();
        let started =
            start::start(&flags, &configuration, metrics, &component.gates(), &tasks).await?;
        say(&format!("kubelet of node {} ready on {}", flags.node_name(), started.listen));
        Ok(started)
    })
}

/// What only this machine can say.
fn validate(configuration: &KubeletConfiguration) -> Result<()> {
    let is_unified = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if configuration.fail_cgroup_v1 && !is_unified {
        bail!("failCgroupV1: this machine has cgroup v1");
    }
    serving::validate(configuration)?;
    start::container_runtime(configuration).map(|_| ())
}

/// Removes what a kubelet on this root directory has made. Nobody may run on it.
fn clean_up(flags: &Flags) -> Result<()> {
    let data = DataDir::open(&flags.data_dir())?;
    let Some(state) = state::State::load(data.path())? else {
        say("nothing to remove: no kubelet ran on this directory");
        return Ok(());
    };
    let settings = state.settings_to_purge()?;
    let problems = node::purge_settings(&settings, data.path(), &flags.root_dir.join("pods"))?;
    if !problems.is_empty() {
        bail!("not everything could be removed: {}", problems.join("; "));
    }
    std::fs::remove_dir_all(data.path())?;
    say("containers, network and volumes of this node are removed");
    Ok(())
}
