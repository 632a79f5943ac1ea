//! `xebec scheduler`: the scheduler alone, over HTTPS, one leader at a time.

use std::path::PathBuf;

use anyhow::Result;
use control_plane::{Clients, Components, ControllerSettings, SCHEDULER as NAME};
use lifecycle::Tasks;
use stdx::World;

use super::remote::{self, Candidate};
use crate::absent_flags::{AbsentFlags, OfAll, OfScheduler};
use crate::component_server::{About, Cluster, Configuration, Health};
use crate::serve::Failure;
use crate::{component, component_server, serve};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Where the API server is, if not where the kubeconfig says
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    #[command(flatten)]
    election: remote::ElectionFlags,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more
    /// everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
    #[command(flatten)]
    component: component::Flags,
    /// Port to serve health and metrics on; 0 for none
    #[arg(long, value_name = "N", default_value_t = 10259)]
    secure_port: u16,
    #[command(flatten)]
    server: component_server::Flags,
    #[command(flatten)]
    _absent: AbsentFlags<OfAll>,
    #[command(flatten)]
    _absent_here: AbsentFlags<OfScheduler>,
}

const CONFIGURATION: Configuration = Configuration {
    name: "componentconfig",
    api_version: "kubescheduler.config.k8s.io/v1",
    kind: "KubeSchedulerConfiguration",
    places: &[
        ("contention-profiling", &["enableContentionProfiling"]),
        ("kubeconfig", &["clientConnection", "kubeconfig"]),
        ("leader-elect", &["leaderElection", "leaderElect"]),
        ("leader-elect-lease-duration", &["leaderElection", "leaseDuration"]),
        ("leader-elect-renew-deadline", &["leaderElection", "renewDeadline"]),
        ("leader-elect-resource-lock", &["leaderElection", "resourceLock"]),
        ("leader-elect-resource-name", &["leaderElection", "resourceName"]),
        ("leader-elect-resource-namespace", &["leaderElection", "resourceNamespace"]),
        ("leader-elect-retry-period", &["leaderElection", "retryPeriod"]),
        ("profiling", &["enableProfiling"]),
    ],
};

pub(crate) fn run(flags: Flags) -> Result<()> {
    flags.component.start_logging(flags.verbosity);
    serve::run_failing(None, |tasks, failure| start(flags, tasks, failure))
}

async fn start(flags: Flags, tasks: Tasks, failure: Failure) -> Result<()> {
    let world = World::system();
    let metrics = flags.component.registry();
    let config = remote::config(&flags.kubeconfig, NAME, &metrics)?;
    let config = remote::at(config, flags.master.as_deref());
    let client = remote::connect(&config, NAME, &tasks, &world)?;
    let parts = component_server::Parts {
        cluster: Cluster {
            name: NAME,
            client: client.clone(),
            kubeconfig: &flags.kubeconfig,
            metrics: metrics.clone(),
            world: &world,
            tasks: &tasks,
        },
        health: Health::of_answering(),
        about: About { flags: crate::flag_values("scheduler"), configuration: CONFIGURATION },
        is_tolerant: true,
    };
    flags.server.serve(flags.secure_port, parts).await?;
    let own = client.clone();
    let components = Components {
        world: world.clone(),
        clients: Clients::new(move |_| own.clone()),
        root_ca: String::new(),
        sign_token: None,
        signers: Default::default(),
        controllers: ControllerSettings::default(),
        availability: Default::default(),
        start_interval: Default::default(),
        metrics: metrics.clone(),
    };
    let candidate = Candidate { name: NAME, client, tasks: &tasks, world, metrics, failure };
    let lead = move |tasks: Tasks| async move { components.start_scheduler(&tasks) };
    flags.election.lead(candidate, lead).await
}
