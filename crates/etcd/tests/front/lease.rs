//! Leases, and the keys that go with them.

use etcd::wire::messages::*;
use etcd::wire::{Code, methods};

use crate::harness::{Server, bytes, refusal, watch_of};

async fn grant(server: &Server, id: i64, ttl: i64) -> LeaseGrantResponse {
    let request = LeaseGrantRequest { ttl, id };
    server.channel.unary(methods::LEASE_GRANT, &request).await.unwrap()
}

#[tokio::test]
async fn keys_go_with_their_lease() {
    for server in [Server::memory().await, Server::embedded().await] {
        let lease = grant(&server, 0, 3600).await.id;
        let put = PutRequest { key: bytes("k"), lease, ..Default::default() };
        server.channel.unary(methods::PUT, &put).await.unwrap();
        let left = LeaseTimeToLiveRequest { id: lease, keys: true };
        let left = server.channel.unary(methods::LEASE_TIME_TO_LIVE, &left).await.unwrap();
        assert_eq!((left.granted_ttl, left.keys), (3600, vec![bytes("k")]));
        let mut watch = server.watch(watch_of("k", 0)).await;
        assert_eq!(watch.line().await, "#0 @2 created");
        let revoke = LeaseRevokeRequest { id: lease };
        server.channel.unary(methods::LEASE_REVOKE, &revoke).await.unwrap();
        assert_eq!(watch.line().await, "#0 @3 DELETE k");
        let leases = server.channel.unary(methods::LEASE_LEASES, &LeaseLeasesRequest {}).await;
        assert_eq!(leases.unwrap().leases, vec![]);
        let gone = LeaseTimeToLiveRequest { id: lease, keys: true };
        let gone = server.channel.unary(methods::LEASE_TIME_TO_LIVE, &gone).await.unwrap();
        assert_eq!(gone.ttl, -1);
        let put = server.channel.unary(methods::PUT, &put).await;
        let expected = (Code::NotFound, "etcdserver: requested lease not found".to_owned());
        assert_eq!(refusal(put), expected);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_stream_keeps_leases_alive_and_tells_which_are_gone() {
    let server = Server::memory().await;
    assert_eq!(grant(&server, 7, 1).await.ttl, 2, "shorter than an election is raised");
    let first = LeaseKeepAliveRequest { id: 7 };
    let (mut requests, pending) =
        server.channel.open(methods::LEASE_KEEP_ALIVE, &first).await.unwrap();
    let mut responses = pending.answers().await.unwrap();
    assert_eq!(responses.next().await.unwrap().unwrap().ttl, 2);
    requests.send(&LeaseKeepAliveRequest { id: 8 }).await.unwrap();
    let gone = responses.next().await.unwrap().unwrap();
    assert_eq!((gone.id, gone.ttl), (8, 0));
    requests.finish().unwrap();
    assert_eq!(responses.next().await.unwrap(), None);
    server.stop().await;
}

#[tokio::test]
async fn grants_are_checked() {
    let server = Server::memory().await;
    grant(&server, 5, 60).await;
    let again = LeaseGrantRequest { ttl: 60, id: 5 };
    let again = refusal(server.channel.unary(methods::LEASE_GRANT, &again).await);
    assert_eq!(again, (Code::FailedPrecondition, "etcdserver: lease already exists".to_owned()));
    let long = LeaseGrantRequest { ttl: 9_000_000_001, id: 0 };
    let long = refusal(server.channel.unary(methods::LEASE_GRANT, &long).await);
    assert_eq!(long, (Code::OutOfRange, "etcdserver: too large lease TTL".to_owned()));
    server.stop().await;
}
