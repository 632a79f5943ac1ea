//! `xebec controller-manager`: the controllers alone, over HTTPS, one leader at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use stdx::World;
use telemetry::Registry;

use super::remote;
use super::service_accounts::Issuer;
use crate::control_plane::CONTROLLER_MANAGER as NAME;
use crate::{component, component_server, serve};

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
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
    #[command(flatten)]
    component: component::Flags,
    /// Port to serve health and metrics on; 0 for none
    #[arg(long, value_name = "N", default_value_t = 10257)]
    secure_port: u16,
    #[command(flatten)]
    server: component_server::Flags,
}

pub(crate) fn run(flags: Flags) -> Result<()> {
    flags.component.start_logging(flags.verbosity);
    serve::run(|tasks| async move {
        let world = World::system();
        let metrics = flags.component.registry();
        let config = remote::config(&flags.kubeconfig, NAME, &metrics)?;
        let client = remote::connect(&config, NAME, &tasks, &world)?;
        let parts = component_server::Parts {
            client: client.clone(),
            authority: &config.ca_pem,
            metrics: metrics.clone(),
            world: &world,
            tasks: &tasks,
        };
        flags.server.serve(NAME, flags.secure_port, parts).await?;
        let root_ca = match &flags.root_ca_file {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?,
        };
        let issuer = flags.use_service_account_credentials.then_some(config);
        let (manager, leading_world) = (client.clone(), world.clone());
        let lead = move |tasks: Tasks| async move {
            let startup = Startup { manager, issuer, root_ca, metrics };
            if let Err(err) = start(&tasks, &leading_world, startup).await {
                tracing::error!(error = format!("{err:#}"), "the controllers did not start");
            }
        };
        remote::lead(&tasks, client, world, NAME, flags.leader_elect, lead).await;
        Ok(())
    })
}

/// What the controllers are started with.
struct Startup {
    manager: Client,
    /// How their own clients are made, if they have any.
    issuer: Option<client::https::Config>,
    root_ca: String,
    metrics: Registry,
}

async fn start(tasks: &Tasks, world: &World, startup: Startup) -> Result<()> {
    let Startup { manager, issuer, root_ca, metrics } = startup;
    let factory = Factory::new(manager.clone(), world.clone(), tasks);
    let mut clients = BTreeMap::new();
    if let Some(config) = issuer {
        let (tasks, world) = (tasks.clone(), world.clone());
        let issuer = Arc::new(Issuer { manager: manager.clone(), config, tasks, world });
        for controller in controllers::ALL {
            clients.insert(controller.identity, issuer.client(controller.identity, NAME).await?);
        }
    }
    controllers::start_all(&controllers::Context {
        tasks: tasks.clone(),
        world: world.clone(),
        factory: factory.clone(),
        client_for: Arc::new(move |name| clients.get(name).unwrap_or(&manager).clone()),
        root_ca,
        config: controllers::Config::default(),
        metrics,
    });
    factory.start();
    Ok(())
}
