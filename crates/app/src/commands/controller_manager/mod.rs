//! `xebec controller-manager`: the controllers alone, over HTTPS, one leader at a time.

mod config;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use apimachinery::GroupVersionResource;
use authn::pki::ServiceAccountKey;
use client::Client;
use control_plane::{
    Availability, CONTROLLER_MANAGER as NAME, Clients, Components, ControllerSettings, Identity,
    ServedResource, SignToken, needed_resources,
};
use features::Gates;
use lifecycle::Tasks;
use stdx::World;

use super::remote;
use super::service_accounts::Issuer;
use crate::component_server::{About, Health};
use crate::{component, component_server, serve, signing};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The authority that pods get as kube-root-ca.crt; that of the kubeconfig, if none is named
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// The key that signs tokens in Secrets of service accounts; without it none are made
    #[arg(long, value_name = "FILE")]
    service_account_private_key_file: Option<PathBuf>,
    #[command(flatten)]
    signing: signing::Flags,
    /// Give each controller its own service account and token, as RBAC's bootstrap roles expect
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    use_service_account_credentials: bool,
    #[command(flatten)]
    election: remote::ElectionFlags,
    #[command(flatten)]
    controllers: ControllerSettings,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more
    /// everything
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
    let gates = flags.component.gates();
    // Whether their APIs are served is for the server to say.
    let for_now = Availability { gates: gates.clone(), serves: Arc::new(|_| true) };
    flags.controllers.check(&for_now).context("--controllers")?;
    flags.component.start_logging(flags.verbosity);
    serve::run(|tasks| async move {
        let world = World::system();
        let metrics = flags.component.registry();
        let kubeconfig = remote::config(&flags.kubeconfig, NAME, &metrics)?;
        let client = remote::connect(&kubeconfig, NAME, &tasks, &world)?;
        let parts = component_server::Parts {
            client: client.clone(),
            authority: &kubeconfig.ca_pem,
            metrics: metrics.clone(),
            health: Health::of_parts(&tasks, flags.controllers.selected().collect()),
            about: About {
                flags: crate::flag_values("controller-manager"),
                config: (config::GROUP, config::PLACES),
            },
            world: &world,
            tasks: &tasks,
        };
        flags.server.serve(NAME, flags.secure_port, parts).await?;
        let root_ca = match &flags.root_ca_file {
            None => String::from_utf8_lossy(&kubeconfig.ca_pem).into_owned(),
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?,
        };
        let sign_token = flags.service_account_private_key_file.as_deref().map(token_signer);
        let sign_token = sign_token.transpose()?;
        let signers = flags.signing.signers(None, &world)?;
        let issuer = flags.use_service_account_credentials.then_some(kubeconfig);
        let (manager, leading_world) = (client.clone(), world.clone());
        let election = flags.election.clone();
        let lead = move |tasks: Tasks| async move {
            let (world, controllers) = (leading_world, flags.controllers);
            let prepared = prepare(&tasks, &world, manager, issuer, (&controllers, gates));
            match prepared.await {
                Ok((clients, availability)) => {
                    let parts = Components {
                        world,
                        clients,
                        root_ca,
                        sign_token,
                        signers,
                        controllers,
                        availability,
                        metrics,
                    };
                    parts.start_controllers(&tasks);
                }
                Err(err) => {
                    tracing::error!(error = format!("{err:#}"), "the controllers did not start");
                }
            }
        };
        election.lead(&tasks, client, world, NAME, lead).await
    })
}

fn token_signer(path: &Path) -> Result<SignToken> {
    let read = || -> Result<SignToken> {
        let pem = std::fs::read_to_string(path)?;
        let key = Arc::new(ServiceAccountKey::load(&pem)?);
        crate::control_plane::token_signer(&key)
    };
    read().with_context(|| format!("--service-account-private-key-file {}", path.display()))
}

/// Who the controllers are, and what the server has for them.
async fn prepare(
    tasks: &Tasks,
    world: &World,
    manager: Client,
    issuer: Option<client::https::Config>,
    (controllers, gates): (&ControllerSettings, Gates),
) -> Result<(Clients, Availability)> {
    let availability = availability(&manager, gates).await?;
    controllers.check(&availability).context("--controllers")?;
    let accounts = controllers.identities(&availability);
    let clients = clients(tasks, world, manager, issuer, accounts).await?;
    Ok((clients, availability))
}

/// By discovery, where there is anything to ask for.
async fn availability(manager: &Client, gates: Gates) -> Result<Availability> {
    if gates == Gates::default() {
        return Ok(Availability::default());
    }
    let served = manager.discover().await.context("asking what is served")?;
    let is_served = |(group, version, plural): &ServedResource| {
        let wanted = GroupVersionResource::new(*group, *version, *plural);
        served.iter().any(|it| it.resource == wanted)
    };
    let served: BTreeSet<ServedResource> = needed_resources().filter(is_served).collect();
    Ok(Availability { gates, serves: Arc::new(move |it| served.contains(&it)) })
}

/// The manager's own client, and one for each service account that a selected controller acts as.
async fn clients(
    tasks: &Tasks,
    world: &World,
    manager: Client,
    issuer: Option<client::https::Config>,
    names: BTreeSet<&'static str>,
) -> Result<Clients> {
    let mut accounts = BTreeMap::new();
    if let Some(config) = issuer {
        let (tasks, world) = (tasks.clone(), world.clone());
        let issuer = Arc::new(Issuer { manager: manager.clone(), config, tasks, world });
        for account in names {
            accounts.insert(account, issuer.client(account, NAME).await?);
        }
    }
    Ok(Clients::new(move |identity| {
        let own = match identity {
            Identity::Controller(account) => accounts.get(account),
            Identity::ControllerManager | Identity::Scheduler | Identity::Node(_) => None,
        };
        own.unwrap_or(&manager).clone()
    }))
}
