//! `xebec scheduler`: the scheduler alone, over HTTPS, one leader at a time.

use std::path::PathBuf;

use anyhow::Result;
use control_plane::{Clients, Components, ControllerSettings, SCHEDULER as NAME};
use lifecycle::Tasks;
use stdx::World;

use super::remote;
use crate::component_server::{About, Health, Places};
use crate::{component, component_server, serve};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
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
}

/// Where upstream's configuration has what the flags say.
const CONFIG: Places = &[
    ("kubeconfig", &["ClientConnection", "Kubeconfig"]),
    ("leader-elect", &["LeaderElection", "LeaderElect"]),
    ("leader-elect-lease-duration", &["LeaderElection", "LeaseDuration"]),
    ("leader-elect-renew-deadline", &["LeaderElection", "RenewDeadline"]),
    ("leader-elect-resource-lock", &["LeaderElection", "ResourceLock"]),
    ("leader-elect-resource-namespace", &["LeaderElection", "ResourceNamespace"]),
    ("leader-elect-retry-period", &["LeaderElection", "RetryPeriod"]),
];

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
            health: Health::of_answering(),
            about: About {
                flags: crate::flag_values("scheduler"),
                config: ("kubescheduler.config.k8s.io", CONFIG),
            },
            world: &world,
            tasks: &tasks,
        };
        flags.server.serve(NAME, flags.secure_port, parts).await?;
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
        let election = flags.election.clone();
        let lead = move |tasks: Tasks| async move { components.start_scheduler(&tasks) };
        election.lead(&tasks, client, world, (NAME, &metrics), lead).await
    })
}
