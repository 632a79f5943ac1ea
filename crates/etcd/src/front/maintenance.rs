//! How the store is, and its upkeep, which it does by itself.

use std::io::Read as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kvstore::{KeyRange, RangeRequest, Revision};
use lifecycle::Shutdown;
use sha2::{Digest as _, Sha256};

use super::exchange::{Gone, Outbound};
use super::routes::Call;
use super::{Front, RAFT_TERM, VERSION, error, number};
use crate::wire::messages::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest,
    MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};
use crate::wire::{Code, Status};

/// Keys that are hashed at a time.
const HASH_PAGE: usize = 1000;
const SNAPSHOT_PIECE: usize = 64 << 10;
/// `etcdctl snapshot save` takes a file for whole when it is blocks of this size and a SHA-256 sum.
const SNAPSHOT_BLOCK: u64 = 512;

pub(super) async fn status(
    front: &Front,
    _request: StatusRequest,
) -> Result<StatusResponse, Status> {
    let status = front.store.status().await.map_err(|err| error::status(&err))?;
    let alarm = status.read_only.as_deref().map(alarm_of);
    Ok(StatusResponse {
        header: front.header(status.revision),
        version: VERSION.to_owned(),
        db_size: size(status.bytes),
        leader: front.member_id,
        raft_index: status.revision.0,
        raft_term: RAFT_TERM,
        raft_applied_index: status.revision.0,
        errors: alarm
            .map(|it| format!("memberID:{} alarm:{} ", front.member_id, alarm_name(it)))
            .into_iter()
            .collect(),
        db_size_in_use: size(status.bytes_current),
        ..StatusResponse::default()
    })
}

pub(super) async fn alarm(front: &Front, _request: AlarmRequest) -> Result<AlarmResponse, Status> {
    let status = front.store.status().await.map_err(|err| error::status(&err))?;
    let alarm = status.read_only.as_deref().map(alarm_of);
    let alarms = alarm.map(|it| AlarmMember { member_id: front.member_id, alarm: it as i32 });
    Ok(AlarmResponse {
        header: front.header(status.revision),
        alarms: alarms.into_iter().collect(),
    })
}

/// A store that cannot be written has no room or has lost its disk's trust. The alarm goes when the
/// cause does.
fn alarm_of(why: &str) -> AlarmType {
    if error::is_full(why) { AlarmType::NoSpace } else { AlarmType::Corrupt }
}

fn alarm_name(alarm: AlarmType) -> &'static str {
    match alarm {
        AlarmType::None => "NONE",
        AlarmType::NoSpace => "NOSPACE",
        AlarmType::Corrupt => "CORRUPT",
    }
}

/// There is nothing to do: space is given back in the background.
pub(super) async fn defragment(
    front: &Front,
    _request: DefragmentRequest,
) -> Result<DefragmentResponse, Status> {
    Ok(DefragmentResponse { header: front.header(front.store.revision()) })
}

pub(super) async fn move_leader(
    _front: &Front,
    _request: MoveLeaderRequest,
) -> Result<MoveLeaderResponse, Status> {
    Err(error::bad_leader_transferee())
}

pub(super) async fn hash(front: &Front, _request: HashRequest) -> Result<HashResponse, Status> {
    let status = front.store.status().await.map_err(|err| error::status(&err))?;
    let hash = match status.hash {
        Some(hash) => fold(hash),
        None => hash_at(front, status.revision).await?,
    };
    Ok(HashResponse { header: front.header(status.revision), hash })
}

pub(super) async fn hash_kv(
    front: &Front,
    request: HashKvRequest,
) -> Result<HashKvResponse, Status> {
    let at = match u64::try_from(request.revision) {
        Ok(0) => front.store.revision(),
        Ok(revision) => Revision(revision),
        Err(_) => return Err(error::compacted()),
    };
    let hash = hash_at(front, at).await?;
    Ok(HashKvResponse {
        header: front.header(front.store.revision()),
        hash,
        compact_revision: number(front.store.oldest()),
        hash_revision: number(at),
    })
}

/// Of all keys and values as they were, page by page. Not etcd's sum: that is over its files.
async fn hash_at(front: &Front, at: Revision) -> Result<u32, Status> {
    let mut hash = Fnv::new();
    let mut start = Bytes::new();
    loop {
        let range = KeyRange { start: start.clone(), end: Bytes::new() };
        let request = RangeRequest::latest(range).at(at).limit(HASH_PAGE);
        let page = front.store.range(request).await.map_err(|err| error::status(&err))?;
        for entry in &page.entries {
            hash.add(&entry.key);
            hash.add(&entry.mod_revision.0.to_be_bytes());
            hash.add(&entry.value);
        }
        match page.entries.last() {
            Some(last) if page.has_more => {
                let mut next = BytesMut::with_capacity(last.key.len() + 1);
                next.extend_from_slice(&last.key);
                next.extend_from_slice(&[0]);
                start = next.freeze();
            }
            _ => return Ok(fold(hash.0)),
        }
        tokio::task::yield_now().await;
    }
}

fn fold(hash: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = hash.to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) ^ u32::from_be_bytes([e, f, g, h])
}

/// FNV-1a: two members' sums are compared, nothing more.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The store's own snapshot, padded and summed so that `etcdctl snapshot save` takes it.
pub(super) async fn snapshot(call: Call, shutdown: Shutdown) -> Result<(), Gone> {
    let Call { peer, mut inbound, reply } = call;
    let front = &peer.front;
    if let Err(status) = inbound.only::<SnapshotRequest>().await {
        return reply.refuse(&status);
    }
    let Some(snapshots) = &front.snapshots else {
        let text = "etcdserver: this store makes no snapshots";
        return reply.refuse(&Status::new(Code::Unimplemented, text));
    };
    let file = match snapshots.snapshot().await {
        Ok(file) => file,
        Err(err) => return reply.refuse(&failed(&err)),
    };
    let mut outbound = reply.open()?;
    let sent = tokio::select! {
        biased;
        () = shutdown.cancelled() => Ok(Err(error::stopped())),
        sent = send_file(front, file, &mut outbound) => sent,
    };
    outbound.finish(sent?)
}

fn failed(err: &std::io::Error) -> Status {
    tracing::warn!(error = %err, "making a snapshot");
    Status::new(Code::Internal, format!("etcdserver: making a snapshot: {err}"))
}

async fn send_file(
    front: &Front,
    file: std::fs::File,
    outbound: &mut Outbound,
) -> Result<Result<(), Status>, Gone> {
    let len = match file.metadata() {
        Ok(metadata) => metadata.len(),
        Err(err) => return Ok(Err(failed(&err))),
    };
    let padding = len.next_multiple_of(SNAPSHOT_BLOCK) - len;
    let mut remaining = len + padding + 32;
    let file = Arc::new(file);
    let mut sum = Sha256::new();
    let mut read = 0;
    while read < len {
        let piece = (len - read).min(SNAPSHOT_PIECE as u64);
        let mut bytes = match read_piece(file.clone(), piece).await {
            Ok(bytes) => bytes,
            Err(err) => return Ok(Err(failed(&err))),
        };
        read += piece;
        if read == len {
            bytes.resize(bytes.len() + usize::try_from(padding).unwrap_or(0), 0);
        }
        sum.update(&bytes);
        remaining -= bytes.len() as u64;
        outbound.send_streamed(&piece_of(front, remaining, Bytes::from(bytes))).await?;
    }
    let sum = Bytes::copy_from_slice(&sum.finalize());
    outbound.send_streamed(&piece_of(front, 0, sum)).await?;
    Ok(Ok(()))
}

fn piece_of(front: &Front, remaining_bytes: u64, blob: Bytes) -> SnapshotResponse {
    let header = front.header(front.store.revision());
    SnapshotResponse { header, remaining_bytes, blob, version: String::new() }
}

async fn read_piece(file: Arc<std::fs::File>, len: u64) -> std::io::Result<Vec<u8>> {
    let read = move || {
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        (&*file).take(len).read_to_end(&mut bytes)?;
        match bytes.len() as u64 == len {
            true => Ok(bytes),
            false => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
        }
    };
    tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)?
}

fn size(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
