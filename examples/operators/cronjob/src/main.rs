//! `cronjob-operator run` works until Ctrl-C; `cronjob-operator manifests` prints what the cluster
//! needs before.
#![expect(clippy::print_stdout, reason = "manifests are printed")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use cronjob_operator::{NAME, Place, manifests, serve, start, tls};
use lifecycle::Tasks;
use operator_connection::connect;
use stdx::World;
use tokio::net::TcpListener;

/// What is under way at the end gets this long.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Starts Jobs on schedules
#[derive(Parser)]
#[command(name = NAME)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Follow CronJobs and answer webhooks
    Run(Run),
    /// Print the definition and the webhooks
    Manifests(Manifests),
}

#[derive(clap::Args)]
struct Run {
    /// Which server, and as whom; without it, that of the pod that this is
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Of the kubeconfig; the current one without it
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Where webhooks are answered
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9443")]
    listen: SocketAddr,
    /// The certificate of that place, PEM
    #[arg(long, value_name = "FILE")]
    tls_cert_file: PathBuf,
    /// Its key, PEM
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: PathBuf,
}

#[derive(clap::Args)]
struct Manifests {
    /// Where API servers find the operator: https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with = "service")]
    url: Option<String>,
    /// The same for a Service
    #[arg(long, value_name = "NAMESPACE/NAME")]
    service: Option<String>,
    /// Who signed its certificate, PEM
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Run(flags) => run(flags).await,
        Command::Manifests(flags) => print(flags),
    }
}

async fn run(flags: Run) -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let (tasks, world) = (Tasks::new(), World::system());
    let place = match &flags.kubeconfig {
        Some(path) => operator_connection::Place::Kubeconfig(path, flags.context.as_deref()),
        None => operator_connection::Place::Pod,
    };
    let client = connect(place, NAME, &world, &tasks)?;
    let tls = tls(&flags.tls_cert_file, &flags.tls_private_key_file)?;
    let listener = TcpListener::bind(flags.listen)
        .await
        .with_context(|| format!("listening on {}", flags.listen))?;
    serve(listener, tls, &tasks);
    start(&client, &world, &tasks);
    tokio::signal::ctrl_c().await?;
    tasks.shutdown(SHUTDOWN).await?;
    Ok(())
}

fn print(flags: Manifests) -> anyhow::Result<()> {
    let place = match (flags.url, flags.service) {
        (Some(url), _) => Place::Url(url),
        (None, Some(service)) => {
            let (namespace, name) =
                service.split_once('/').context("--service is NAMESPACE/NAME")?;
            Place::Service { namespace: namespace.to_owned(), name: name.to_owned() }
        }
        (None, None) => bail!("say where the operator is, with --url or --service"),
    };
    let authority =
        std::fs::read(&flags.ca).with_context(|| format!("reading {}", flags.ca.display()))?;
    println!("{:#}", manifests(&place, &authority)?);
    Ok(())
}
