//! Runs the operator until Ctrl-C: `operator <kubeconfig> [context]`.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use lifecycle::Tasks;
use operator_connection::{Place, connect};
use stdx::World;

/// What is under way at the end gets this long.
const SHUTDOWN: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("the path of a kubeconfig is missing")?;
    let (tasks, world) = (Tasks::new(), World::system());
    let context = arguments.next();
    let place = Place::Kubeconfig(Path::new(&path), context.as_deref());
    let client = connect(place, operator::NAME, &world, &tasks)?;
    operator::start(&client, world, &tasks);
    tokio::signal::ctrl_c().await?;
    tasks.shutdown(SHUTDOWN).await?;
    Ok(())
}
