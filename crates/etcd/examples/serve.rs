//! Serves an embedded store by itself, for benchmarks of the front without the rest of Xebec:
//! `serve DIR http://127.0.0.1:PORT`.
#![expect(clippy::print_stdout, reason = "tells where it listens")]

use anyhow::{Context as _, Result};
use etcd::front::{self, Config};
use kvstore::embedded::{Embedded, Options};
use lifecycle::Tasks;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().context("serve DIR URL")?;
    let url = arguments.next().context("serve DIR URL")?;
    std::fs::create_dir_all(&dir)?;
    let store = Embedded::open(dir.as_ref(), Options::default())?;
    let tasks = Tasks::new();
    let serving = front::serve(store.clone(), Config::new(vec![url], dir), &tasks).await?;
    println!("{:?}", serving.addresses);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    terminate.recv().await;
    tasks.shutdown(std::time::Duration::from_secs(10)).await?;
    store.close().await;
    Ok(())
}
