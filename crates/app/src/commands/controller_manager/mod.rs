//! `xebec controller-manager`: the controllers alone, over HTTPS, one leader at a time.

mod config;
mod preparation;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use authn::pki::ServiceAccountKey;
use control_plane::{
    Availability, CONTROLLER_MANAGER as NAME, Clients, Components, ControllerSettings, SignToken,
    Signers,
};
use lifecycle::Tasks;
use stdx::World;
use telemetry::Registry;

use self::preparation::Preparation;
use super::remote::{self, Candidate};
use crate::absent_flags::{AbsentFlags, OfAll, OfControllerManager};
use crate::component_server::{About, Cluster, Health, Trouble};
use crate::datastore::parse_duration;
use crate::serve::Failure;
use crate::switch::{self, named};
use crate::{component, component_server, serve, signing};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Where the API server is, if not where the kubeconfig says
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// The authority that pods get as kube-root-ca.crt; that of the kubeconfig, if none is named
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    root_ca_file: Option<PathBuf>,
    /// The key that signs tokens in Secrets of service accounts; without it none are made
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    service_account_private_key_file: Option<PathBuf>,
    #[command(flatten)]
    signing: signing::Flags,
    /// Give each controller its own service account and token, as RBAC's bootstrap roles expect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = switch::parse)]
    #[arg(action = clap::ArgAction::Set)]
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
    /// Who has the cluster's cloud: nobody, or external, a controller manager of its own
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = cloud_provider)]
    cloud_provider: String,
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
    #[command(flatten)]
    _absent: AbsentFlags<OfAll>,
    #[command(flatten)]
    _absent_here: AbsentFlags<OfControllerManager>,
}

/// A star does not mean these: upstream runs them with a cloud, and so does not expect them.
const FOR_CLOUDS: &[&str] = &["service-lb-controller"];

fn cluster_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a cluster has a name".to_owned()),
        name => Ok(name.to_owned()),
    }
}

fn cloud_provider(text: &str) -> Result<String, String> {
    match text {
        "" | "external" => Ok(text.to_owned()),
        other => Err(format!(
            "cloud provider {other:?} was specified, but built-in cloud providers are disabled. \
             Please set --cloud-provider=external and migrate to an external cloud provider"
        )),
    }
}

pub(crate) fn run(mut flags: Flags) -> Result<()> {
    flags.controllers = flags.controllers.leaving_out(FOR_CLOUDS);
    // Whether their APIs are served is for the server to say.
    let for_now = Availability { gates: flags.component.gates(), serves: Arc::new(|_| true) };
    flags.controllers.check(&for_now).context("--controllers")?;
    flags.component.start_logging(flags.verbosity);
    let drain = Some(flags.controller_shutdown_timeout);
    serve::run_failing(drain, |tasks, failure| start(flags, tasks, failure))
}

async fn start(flags: Flags, tasks: Tasks, failure: Failure) -> Result<()> {
    let world = World::system();
    let metrics = flags.component.registry();
    let kubeconfig = remote::config(&flags.kubeconfig, NAME, &metrics)?;
    let kubeconfig = remote::at(kubeconfig, flags.master.as_deref());
    // Who leads, who may ask us and who the controllers are waits for nobody's turn.
    let client = remote::connect(&kubeconfig, NAME, &tasks, &world)?;
    let trouble = Trouble::default();
    let health = Health::of_parts(&tasks, flags.controllers.selected().collect());
    let parts = component_server::Parts {
        cluster: Cluster {
            name: NAME,
            client: client.clone(),
            kubeconfig: &flags.kubeconfig,
            metrics: metrics.clone(),
            world: &world,
            tasks: &tasks,
        },
        health: health.unless("controllers", &trouble),
        about: About {
            flags: crate::flag_values("controller-manager"),
            configuration: config::CONFIGURATION,
        },
        is_tolerant: false,
    };
    flags.server.serve(flags.secure_port, parts).await?;
    let given = Given::read(&flags, &kubeconfig.ca_pem, &world, &metrics)?;
    let kubeconfig = flags.client.apply(kubeconfig);
    let manager = remote::connect(&kubeconfig, NAME, &tasks, &world)?;
    let preparation = Preparation {
        world: world.clone(),
        manager,
        issuer: flags.use_service_account_credentials.then(|| (client.clone(), kubeconfig)),
        gates: flags.component.gates(),
        controllers: flags.controllers,
        trouble,
    };
    let failing = failure.clone();
    let lead = move |tasks: Tasks| async move {
        match preparation.run(&tasks).await {
            Ok((clients, availability)) => {
                let controllers = preparation.controllers;
                let components = given.components(controllers, clients, availability);
                components.start_controllers(&tasks);
            }
            Err(unavailable) => failing.fail(preparation::refused(unavailable)),
        }
    };
    let candidate = Candidate { name: NAME, client, tasks: &tasks, world, metrics, failure };
    flags.election.lead(candidate, lead).await
}

/// What the controllers get that is known before anybody leads.
struct Given {
    world: World,
    root_ca: String,
    sign_token: Option<SignToken>,
    signers: Signers,
    start_interval: Duration,
    metrics: Registry,
}

impl Given {
    fn read(flags: &Flags, authority: &[u8], world: &World, metrics: &Registry) -> Result<Self> {
        let root_ca = match named(&flags.root_ca_file) {
            None => String::from_utf8_lossy(authority).into_owned(),
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("--root-ca-file: reading {}", path.display()))?,
        };
        let key = named(&flags.service_account_private_key_file);
        Ok(Self {
            world: world.clone(),
            root_ca,
            sign_token: key.map(token_signer).transpose()?,
            signers: flags.signing.signers(None, world)?,
            start_interval: flags.controller_start_interval,
            metrics: metrics.clone(),
        })
    }

    fn components(
        self,
        controllers: ControllerSettings,
        clients: Clients,
        availability: Availability,
    ) -> Components {
        let Self { world, root_ca, sign_token, signers, start_interval, metrics } = self;
        Components {
            world,
            clients,
            root_ca,
            sign_token,
            signers,
            controllers,
            availability,
            start_interval,
            metrics,
        }
    }
}

fn token_signer(path: &Path) -> Result<SignToken> {
    let read = || -> Result<SignToken> {
        let pem = std::fs::read_to_string(path)?;
        let key = Arc::new(ServiceAccountKey::load(&pem)?);
        crate::control_plane::token_signer(&key)
    };
    read().with_context(|| format!("--service-account-private-key-file {}", path.display()))
}
