//! `xebec controller-manager`: the controllers alone, over HTTPS, one leader at a time.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use stdx::World;

use super::remote;
use crate::{logging, serve};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The authority that pods get as kube-root-ca.crt
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// Run only while holding the Lease kube-system/kube-controller-manager
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Log level: 0 warnings, 2 information, 4 debug
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
}

const NAME: &str = "kube-controller-manager";

pub(crate) fn run(flags: Flags) -> Result<()> {
    logging::start(flags.verbosity);
    serve::run(|tasks| async move {
        let world = World::system();
        let client = remote::connect(&flags.kubeconfig, NAME, &tasks, &world)?;
        let root_ca = match &flags.root_ca_file {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?,
        };
        let (leading_client, leading_world) = (client.clone(), world.clone());
        let lead = move |tasks: Tasks| async move {
            start(&tasks, &leading_world, leading_client, root_ca)
        };
        remote::lead(&tasks, client, world, NAME, flags.leader_elect, lead).await;
        Ok(())
    })
}

fn start(tasks: &Tasks, world: &World, client: Client, root_ca: String) {
    let factory = Factory::new(client.clone(), world.clone(), tasks);
    controllers::start_all(&controllers::Context {
        tasks: tasks.clone(),
        world: world.clone(),
        factory: factory.clone(),
        // Without service-account credentials every controller acts as the manager, as upstream's does by default.
        client_for: Arc::new(move |_| client.clone()),
        root_ca,
        config: controllers::Config::default(),
    });
    factory.start();
}
