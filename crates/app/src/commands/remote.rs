//! What components that run alone share: a client from a kubeconfig, and leadership.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use client::Client;
use client::https::{Config, Content, Https};
use lifecycle::Tasks;
use reconcile::{Election, Terms};
use stdx::{Pace, World};
use telemetry::Registry;

use crate::control_plane::identity;
use crate::datastore::parse_duration;
use crate::kubeconfig_file;
use crate::serve::Failure;
use crate::switch;

/// How, and how often, each client asks.
#[derive(clap::Args, Clone)]
#[group(id = "client")]
pub(crate) struct ClientFlags {
    /// Requests a second of each client, on average; 0 means 5, and less any number
    #[arg(long, value_name = "N", default_value_t = 20.0, allow_negative_numbers = true)]
    #[arg(value_parser = number)]
    kube_api_qps: f64,
    /// Requests of each client at once
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    kube_api_burst: u32,
    /// Form of single objects: application/json or application/vnd.kubernetes.protobuf; lists and
    /// watches are JSON
    #[arg(long, value_name = "TYPE", default_value = "application/json", value_parser = content)]
    kube_api_content_type: Content,
}

/// As client-go's, for those who ask for none.
const QPS_DEFAULT: f64 = 5.0;

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|it| it.is_finite());
    number.ok_or_else(|| format!("{text:?} is no number"))
}

fn content(text: &str) -> Result<Content, String> {
    match text {
        "application/json" => Ok(Content::Json),
        "application/vnd.kubernetes.protobuf" => Ok(Content::Protobuf),
        other => Err(format!(
            "{other:?} is not supported: choose application/json or \
             application/vnd.kubernetes.protobuf"
        )),
    }
}

impl ClientFlags {
    pub(crate) fn apply(&self, config: Config) -> Config {
        let per_second = match self.kube_api_qps {
            it if it < 0.0 => None,
            0.0 => Some(QPS_DEFAULT),
            it => Some(it),
        };
        let pace = per_second.map(|it| Pace::new(it, f64::from(self.kube_api_burst)));
        Config { pace, content: self.kube_api_content_type, ..config }
    }
}

/// Requests are counted on `metrics`.
pub(crate) fn config(kubeconfig: &Path, name: &str, metrics: &Registry) -> Result<Config> {
    let config = kubeconfig_file::load(kubeconfig, &format!("{name}/v1.36 (xebec)"))?;
    Ok(Config { metrics: metrics.clone(), ..config })
}

/// The same at another server, if one is named: upstream's `--master`.
pub(crate) fn at(config: Config, server: Option<&str>) -> Config {
    let server = server.filter(|it| !it.is_empty()).map_or(config.server, str::to_owned);
    Config { server, ..config }
}

/// Its connections last until all others have ended: a leader gives back its Lease on the way out.
pub(crate) fn connect(config: &Config, name: &str, tasks: &Tasks, world: &World) -> Result<Client> {
    let connections = tasks.child_last("connections");
    Ok(Client::new(Arc::new(Https::new(&connections, world, config)?), name))
}

fn lock(text: &str) -> Result<String, String> {
    match text {
        "leases" => Ok(text.to_owned()),
        other => Err(format!("{other:?} is not supported: choose leases")),
    }
}

/// Whether, and on which terms, a leader is elected.
#[derive(clap::Args, Clone)]
#[group(id = "election")]
pub(crate) struct ElectionFlags {
    /// Run only while holding the component's Lease
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = switch::parse)]
    #[arg(action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// How long others wait for a leader that does not renew before they take its place
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    leader_elect_lease_duration: Duration,
    /// How long a leader tries to renew before it stops; less than the lease lasts
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    leader_elect_renew_deadline: Duration,
    /// Between renewals, and between attempts to lead
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    leader_elect_retry_period: Duration,
    /// The kind of object that says who leads: leases
    #[arg(long, value_name = "KIND", default_value = "leases", value_parser = lock)]
    leader_elect_resource_lock: String,
    /// Its name; that of the component, if none is said
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Its namespace
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    leader_elect_resource_namespace: String,
}

impl ElectionFlags {
    fn terms(&self) -> Result<Terms> {
        let terms = Terms {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone(),
        };
        terms.validate()?;
        Ok(terms)
    }

    /// Runs `lead` at once, or when this process becomes the leader. A process that has led and
    /// leads no more ends, as upstream's do: whoever supervises it starts it anew.
    pub(crate) async fn lead<F>(
        &self,
        candidate: Candidate<'_>,
        lead: impl FnOnce(Tasks) -> F + Send + 'static,
    ) -> Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Candidate { name, client, tasks, world, metrics, failure } = candidate;
        if !self.leader_elect {
            lead(tasks.clone()).await;
            return Ok(());
        }
        let (identity, terms) = (identity(&world), self.terms()?);
        let election = Election { client, world, name, identity, terms, metrics };
        let lost = move || failure.fail(anyhow!("leaderelection lost"));
        reconcile::with_leadership(tasks, election, lead, lost);
        Ok(())
    }
}

/// Who stands for election, or works without one.
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) tasks: &'a Tasks,
    pub(crate) world: World,
    /// Where it is shown who leads.
    pub(crate) metrics: Registry,
    /// Told of a lost Lease.
    pub(crate) failure: Failure,
}
