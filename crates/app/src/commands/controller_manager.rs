//! `xebec controller-manager`: the controllers alone, over HTTPS, one leader at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use stdx::World;

use super::remote;
use super::service_accounts::Issuer;
use crate::control_plane::CONTROLLER_MANAGER as NAME;
use crate::{logging, serve};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The authority that pods get as kube-root-ca.crt
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// Give each controller its own service account and token, as RBAC's bootstrap roles expect
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    use_service_account_credentials: bool,
    /// Run only while holding the Lease kube-system/kube-controller-manager
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
        let config = remote::config(&flags.kubeconfig, NAME)?;
        let client = remote::connect(&config, NAME, &tasks, &world)?;
        let root_ca = match &flags.root_ca_file {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?,
        };
        let issuer = flags.use_service_account_credentials.then_some(config);
        let (manager, leading_world) = (client.clone(), world.clone());
        let lead = move |tasks: Tasks| async move {
            if let Err(err) = start(&tasks, &leading_world, manager, issuer, root_ca).await {
                tracing::error!(error = format!("{err:#}"), "the controllers did not start");
            }
        };
        remote::lead(&tasks, client, world, NAME, flags.leader_elect, lead).await;
        Ok(())
    })
}

async fn start(
    tasks: &Tasks,
    world: &World,
    manager: Client,
    issuer: Option<client::https::Config>,
    root_ca: String,
) -> Result<()> {
    let factory = Factory::new(manager.clone(), world.clone(), tasks);
    let mut clients = BTreeMap::new();
    if let Some(config) = issuer {
        let (tasks, world) = (tasks.clone(), world.clone());
        let issuer = Arc::new(Issuer { manager: manager.clone(), config, tasks, world });
        for controller in controllers::ALL {
            clients.insert(controller.identity, issuer.client(controller.identity, NAME).await?);
        }
    }
    controllers::start(&controllers::Context {
        tasks: tasks.clone(),
        world: world.clone(),
        factory: factory.clone(),
        client_for: Arc::new(move |name| clients.get(name).unwrap_or(&manager).clone()),
        root_ca,
        settings: controllers::Settings::default(),
    });
    factory.start();
    Ok(())
}
