//! Status, hashes, alarms, snapshots, members, authentication.

use std::io::Write as _;
use std::sync::Arc;

use etcd::front::{Config, Snapshots};
use etcd::wire::messages::*;
use etcd::wire::{Code, methods};
use futures_util::future::BoxFuture;
use kvstore::memory::Memory;
use sha2::{Digest as _, Sha256};

use crate::harness::{Server, config, refusal};

#[tokio::test]
async fn status_tells_what_clients_look_at() {
    let server = Server::embedded().await;
    server.put("a", "1").await;
    let status = server.channel.unary(methods::STATUS, &StatusRequest {}).await.unwrap();
    assert_eq!(status.version, etcd::front::VERSION);
    assert_eq!(status.header.unwrap().revision, 2);
    assert!(status.db_size > 0 && status.raft_term > 0 && status.errors.is_empty());
    let alarms = AlarmRequest { action: AlarmAction::Get as i32, ..Default::default() };
    let alarms = server.channel.unary(methods::ALARM, &alarms).await.unwrap();
    assert_eq!(alarms.alarms, vec![]);
    server.channel.unary(methods::DEFRAGMENT, &DefragmentRequest {}).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn the_hash_follows_the_history() {
    let server = Server::memory().await;
    server.put("a", "1").await;
    let hash = async |revision| {
        let request = HashKvRequest { revision };
        server.channel.unary(methods::HASH_KV, &request).await.unwrap().hash
    };
    let first = hash(0).await;
    server.put("a", "2").await;
    assert_ne!(hash(0).await, first);
    assert_eq!(hash(2).await, first);
    let future =
        refusal(server.channel.unary(methods::HASH_KV, &HashKvRequest { revision: 9 }).await);
    assert_eq!(future.0, Code::OutOfRange);
    server.stop().await;
}

struct Fixed(Vec<u8>);

impl Snapshots for Fixed {
    fn snapshot(&self) -> BoxFuture<'_, std::io::Result<std::fs::File>> {
        Box::pin(async {
            let mut file = tempfile::tempfile()?;
            file.write_all(&self.0)?;
            std::io::Seek::rewind(&mut file)?;
            Ok(file)
        })
    }
}

#[tokio::test]
async fn a_snapshot_is_the_file_with_padding_and_a_sum() {
    for len in [1, 511, 512, 200_000] {
        let content: Vec<u8> = (0..len).map(|it: u32| it.to_le_bytes()[0]).collect();
        let config = Config { snapshots: Some(Arc::new(Fixed(content.clone()))), ..config() };
        let server = Server::over(Arc::new(Memory::new()), config).await;
        let opened = server.channel.open(methods::SNAPSHOT, &SnapshotRequest {}).await.unwrap();
        let (requests, pending) = opened;
        requests.finish().unwrap();
        let mut responses = pending.answers().await.unwrap();
        let mut got = Vec::new();
        let mut remaining = u64::MAX;
        while let Some(piece) = responses.next().await.unwrap() {
            assert!(piece.remaining_bytes < remaining || piece.remaining_bytes == 0);
            remaining = piece.remaining_bytes;
            got.extend_from_slice(&piece.blob);
        }
        assert_eq!((remaining, got.len() % 512), (0, 32));
        let (blob, sum) = got.split_at(got.len() - 32);
        assert_eq!(sum, &Sha256::digest(blob)[..]);
        assert_eq!(&blob[..content.len()], &content[..]);
        server.stop().await;
    }
}

#[tokio::test]
async fn what_one_member_cannot_do_is_refused_clearly() {
    let server = Server::memory().await;
    let members = server.channel.unary(methods::MEMBER_LIST, &MemberListRequest::default()).await;
    let members = members.unwrap().members;
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].client_urls, vec![server.url()]);
    let auth = server.channel.unary(methods::AUTH_STATUS, &AuthStatusRequest {}).await.unwrap();
    assert!(!auth.enabled);
    let refused =
        server.channel.unary(methods::AUTHENTICATE, &AuthenticateRequest::default()).await;
    let expected = "etcdserver: authentication is not enabled".to_owned();
    assert_eq!(refusal(refused), (Code::FailedPrecondition, expected));
    let snapshot = server.channel.open(methods::SNAPSHOT, &SnapshotRequest {}).await.unwrap();
    let refused = snapshot.1.answers().await.map(drop);
    assert_eq!(refusal(refused).0, Code::Unimplemented);
    let moved = server.channel.unary(methods::MOVE_LEADER, &MoveLeaderRequest::default()).await;
    assert_eq!(refusal(moved).1, "etcdserver: bad leader transferee");
    server.stop().await;
}
