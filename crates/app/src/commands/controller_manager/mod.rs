//! `xebec controller-manager`: the controllers alone, over HTTPS, one leader at a time.

mod config;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
use crate::datastore::parse_duration;
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
    client: remote::ClientFlags,
    /// Between the starts of two controllers
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    controller_start_interval: Duration,
    /// How long controllers may take to stop
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    controller_shutdown_timeout: Duration,
    /// Accepted, and does nothing: caches are not gone through again, since they miss no change
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = parse_duration)]
    min_resync_period: Duration,
    /// Accepted, and does nothing: it names what a cloud makes for the cluster
    #[arg(long, value_name = "NAME", default_value = "kubernetes", value_parser = cluster_name)]
    cluster_name: String,
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

/// A star does not mean these: upstream runs them with a cloud, and so does not expect them.
const FOR_CLOUDS: &[&str] = &["service-lb-controller"];

/// Clients of these may ask so many times as often, and so many times as much at once, as
/// upstream's: they have work with every object there is.
const CHATTY: &[(&str, f64, f64)] = &[
    ("generic-garbage-collector", 2.0, 1.0),
    ("namespace-controller", 20.0, 100.0),
    ("storage-version-migrator-controller", 20.0, 100.0),
];

fn cluster_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a cluster has a name".to_owned()),
        name => Ok(name.to_owned()),
    }
}

pub(crate) fn run(mut flags: Flags) -> Result<()> {
    flags.controllers = flags.controllers.leaving_out(FOR_CLOUDS);
    let gates = flags.component.gates();
    // Whether their APIs are served is for the server to say.
    let for_now = Availability { gates: gates.clone(), serves: Arc::new(|_| true) };
    flags.controllers.check(&for_now).context("--controllers")?;
    flags.component.start_logging(flags.verbosity);
    serve::run_draining(flags.controller_shutdown_timeout, |tasks| async move {
        let world = World::system();
        let metrics = flags.component.registry();
        let kubeconfig = remote::config(&flags.kubeconfig, NAME, &metrics)?;
        // Who leads, who may ask us and who the controllers are waits for nobody's turn.
        let client = remote::connect(&kubeconfig, NAME, &tasks, &world)?;
        let kubeconfig = flags.client.apply(kubeconfig);
        let manager = remote::connect(&kubeconfig, NAME, &tasks, &world)?;
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
        let issuer = flags.use_service_account_credentials;
        let issuer = issuer.then(|| (client.clone(), kubeconfig));
        let (leading_world, shown) = (world.clone(), metrics.clone());
        let (election, start_interval) = (flags.election.clone(), flags.controller_start_interval);
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
                        start_interval,
                        metrics,
                    };
                    parts.start_controllers(&tasks);
                }
                Err(err) => {
                    tracing::error!(error = format!("{err:#}"), "the controllers did not start");
                }
            }
        };
        election.lead(&tasks, client, world, (NAME, &shown), lead).await
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
    issuer: Option<(Client, client::https::Config)>,
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
    issuer: Option<(Client, client::https::Config)>,
    names: BTreeSet<&'static str>,
) -> Result<Clients> {
    let mut accounts = BTreeMap::new();
    if let Some((issuing, config)) = issuer {
        let (tasks, world) = (tasks.clone(), world.clone());
        let issuer = Arc::new(Issuer { manager: issuing, config, tasks, world });
        for account in names {
            let chatty = CHATTY.iter().find(|it| it.0 == account);
            let (often, much) = chatty.map_or((1.0, 1.0), |it| (it.1, it.2));
            accounts.insert(account, issuer.client(account, NAME, (often, much)).await?);
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
