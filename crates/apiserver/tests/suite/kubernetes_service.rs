//! The endpoints of the Service `kubernetes`: every server over the store that is alive, as told by
//! keys with upstream's names.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::core::Endpoints;
use api::discovery::EndpointSlice;
use apiserver::{Compaction, Config, Encoding};
use kvstore::memory::Memory;
use kvstore::{KeyRange, Op, RangeRequest, Store as _, Txn};
use stdx::World;

use crate::harness::{self, Harness};

async fn start(memory: &Arc<Memory>, address: &str) -> Harness {
    let advertise: SocketAddr = address.parse().expect("an address");
    let config = Config {
        compaction: Compaction::ByServer,
        encoding: Encoding::Protobuf,
        advertise,
        ..Config::default()
    };
    let world = World::simulated(advertise.port().into());
    harness::try_start_over(world, memory.clone(), config).await.expect("the server starts")
}

async fn keys(memory: &Memory) -> Vec<String> {
    let all = RangeRequest::latest(KeyRange::prefix(b"/registry/masterleases/"));
    let entries = memory.range(all).await.expect("read").entries;
    entries.iter().map(|it| String::from_utf8_lossy(&it.key[23..]).into_owned()).collect()
}

/// Endpoints and slice must say the same.
async fn endpoints(server: &Harness) -> (Vec<String>, i32) {
    let endpoints = server.client.api::<Endpoints>().get("default", "kubernetes").await;
    let subsets = endpoints.expect("found").subsets.clone().expect("subsets");
    assert_eq!(subsets.len(), 1);
    let addresses: Vec<String> =
        subsets[0].addresses.iter().flatten().map(|it| it.ip.clone()).collect();
    let port = subsets[0].ports.as_ref().expect("ports")[0].port;
    let slice = server.client.api::<EndpointSlice>().get("default", "kubernetes").await;
    let slice = slice.expect("found");
    let sliced: Vec<String> =
        slice.endpoints.iter().flatten().flat_map(|it| it.addresses.clone()).collect();
    assert_eq!(
        (sliced, slice.ports.as_ref().expect("ports")[0].port),
        (addresses.clone(), Some(port))
    );
    (addresses, port)
}

async fn seconds(n_seconds: u64) {
    tokio::time::sleep(Duration::from_secs(n_seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_all_servers_that_are_alive() {
    let memory = Arc::new(Memory::new());
    let one = start(&memory, "10.0.0.1:6443").await;
    assert_eq!(endpoints(&one).await, (vec!["10.0.0.1".to_owned()], 6443));
    let two = start(&memory, "10.0.0.2:6443").await;
    let both = (vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()], 6443);
    assert_eq!(endpoints(&two).await, both, "the second adds itself at once");
    assert_eq!(keys(&memory).await, ["10.0.0.1", "10.0.0.2"]);
    // Nothing is written while nothing changes.
    let revision = memory.revision();
    seconds(120).await;
    assert_eq!(memory.revision(), revision);
    assert_eq!(endpoints(&one).await, both);
    // One ends cleanly: the other knows with its next turn.
    one.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    assert_eq!(keys(&memory).await, ["10.0.0.2"]);
    seconds(11).await;
    assert_eq!(endpoints(&two).await, (vec!["10.0.0.2".to_owned()], 6443));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_vanished_is_no_endpoint_half_a_minute_later() {
    let memory = Arc::new(Memory::new());
    // As upstream writes it: no port, and a lease that nobody renews.
    let value = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Endpoints\x12\x14\x0a\x00\x12\x10\x0a\x0e\x0a\x0810.0.0.9\x1a\x00\x22\x00";
    let lease = memory.lease_grant(None, Duration::from_secs(15)).await.expect("granted");
    let put = match Op::put("/registry/masterleases/10.0.0.9", &value[..]) {
        Op::Put(put) => Op::Put(kvstore::Put { lease: kvstore::PutLease::Bound(lease), ..put }),
        other => other,
    };
    memory.txn(Txn::of(vec![put])).await.expect("written");
    let server = start(&memory, "10.0.0.1:6443").await;
    let both = vec!["10.0.0.1".to_owned(), "10.0.0.9".to_owned()];
    assert_eq!(endpoints(&server).await, (both, 6443));
    seconds(26).await;
    assert_eq!(endpoints(&server).await, (vec!["10.0.0.1".to_owned()], 6443));
    assert_eq!(keys(&memory).await, ["10.0.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn servers_with_other_ports_do_not_fight_over_the_endpoints() {
    let memory = Arc::new(Memory::new());
    let one = start(&memory, "127.0.0.1:6443").await;
    let two = start(&memory, "127.0.0.1:7443").await;
    assert_eq!(keys(&memory).await, ["127.0.0.1", "127.0.0.1:7443"]);
    let revision = memory.revision();
    for _ in 0..10 {
        seconds(7).await;
        assert_eq!(endpoints(&two).await, (vec!["127.0.0.1".to_owned()], 6443));
    }
    assert_eq!(memory.revision(), revision);
    one.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    seconds(11).await;
    assert_eq!(endpoints(&two).await, (vec!["127.0.0.1".to_owned()], 7443));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_went_with_another_servers_lease_comes_back() {
    let memory = Arc::new(Memory::new());
    let first = start(&memory, "10.0.0.1:6443").await;
    // The same address: another machine behind the same gateway, or a restart of the first that the
    // first survived.
    let second = start(&memory, "10.0.0.1:6443").await;
    second.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    assert!(keys(&memory).await.is_empty());
    seconds(11).await;
    assert_eq!(keys(&memory).await, ["10.0.0.1"]);
    assert_eq!(endpoints(&first).await, (vec!["10.0.0.1".to_owned()], 6443));
}
