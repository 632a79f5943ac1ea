//! The engine over Debian's etcd: the contract, lost answers, clusters that break, TLS and
//! passwords, quota and compaction.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stdout, reason = "a test says what it skips and what it breaks")]

mod cluster;
mod contract;
mod limits;
mod lost_answers;
mod member;
mod network;
mod proxy;
mod secured;

use std::sync::Arc;
use std::time::Duration;

use etcd::engine::{Config, Etcd};
use kvstore::Store;
use lifecycle::Tasks;
use stdx::World;

/// Quick enough for tests in which members are silent.
fn config(endpoints: &[&str]) -> Config {
    let mut config = Config::new(endpoints.iter().map(|it| (*it).to_owned()).collect());
    config.limits.timeout_attempt = Duration::from_millis(700);
    config.limits.timeout_tail = Duration::from_millis(700);
    config
}

async fn connect(config: Config) -> Arc<Etcd> {
    match Etcd::connect(config, &World::system(), &Tasks::new()).await {
        Ok(engine) => engine,
        Err(err) => panic!("{}", stdx::error_chain(&err)),
    }
}

/// Waits for a condition that must come.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "never: {what}");
}

async fn value(store: &dyn Store, key: &str) -> Option<String> {
    let range = kvstore::KeyRange::one(key.as_bytes());
    let response = store.range(kvstore::RangeRequest::latest(range)).await.unwrap();
    response.entries.first().map(|it| String::from_utf8_lossy(&it.value).into_owned())
}
