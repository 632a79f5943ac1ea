//! `xebec scheduler`: the scheduler alone, over HTTPS, one leader at a time.

use std::path::PathBuf;

use anyhow::Result;
use informer::Factory;
use lifecycle::Tasks;
use stdx::World;

use super::remote;
use crate::control_plane::SCHEDULER as NAME;
use crate::{logging, serve};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Run only while holding the Lease kube-system/kube-scheduler
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Log level: 0 warnings, 2 information, 4 debug
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
}

pub(crate) fn run(flags: Flags) -> Result<()> {
    logging::start(flags.verbosity);
    serve::run(|tasks| async move {
        let world = World::system();
        let client =
            remote::connect(&remote::config(&flags.kubeconfig, NAME)?, NAME, &tasks, &world)?;
        let (leading_client, leading_world) = (client.clone(), world.clone());
        let lead = move |tasks: Tasks| async move {
            let factory = Factory::new(leading_client.clone(), leading_world.clone(), &tasks);
            scheduler::start(
                scheduler::Config::default(),
                &tasks,
                &leading_world,
                &factory,
                &leading_client,
            );
            factory.start();
        };
        remote::lead(&tasks, client, world, NAME, flags.leader_elect, lead).await;
        Ok(())
    })
}
