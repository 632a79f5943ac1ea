//! `xebec scheduler`: the scheduler alone, over HTTPS, one leader at a time.

use std::path::PathBuf;

use anyhow::Result;
use control_plane::{Clients, Components, ControllerSettings, SCHEDULER as NAME};
use lifecycle::Tasks;
use stdx::World;

use super::remote;
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
        let own = client.clone();
        let components = Components {
            world: world.clone(),
            clients: Clients::new(move |_| own.clone()),
            root_ca: String::new(),
            controllers: ControllerSettings::default(),
        };
        let lead = move |tasks: Tasks| async move { components.start_scheduler(&tasks) };
        remote::lead(&tasks, client, world, NAME, flags.leader_elect, lead).await;
        Ok(())
    })
}
