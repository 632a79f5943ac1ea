//! The methods of etcd's services: their paths, with the messages that go in and come out.

pub use grpc::Method;

use super::messages::*;

pub const RANGE: Method<RangeRequest, RangeResponse> = Method::new("/etcdserverpb.KV/Range");
pub const PUT: Method<PutRequest, PutResponse> = Method::new("/etcdserverpb.KV/Put");
pub const DELETE_RANGE: Method<DeleteRangeRequest, DeleteRangeResponse> =
    Method::new("/etcdserverpb.KV/DeleteRange");
pub const TXN: Method<TxnRequest, TxnResponse> = Method::new("/etcdserverpb.KV/Txn");
pub const COMPACT: Method<CompactionRequest, CompactionResponse> =
    Method::new("/etcdserverpb.KV/Compact");

/// Streams both ways.
pub const WATCH: Method<WatchRequest, WatchResponse> = Method::new("/etcdserverpb.Watch/Watch");

pub const LEASE_GRANT: Method<LeaseGrantRequest, LeaseGrantResponse> =
    Method::new("/etcdserverpb.Lease/LeaseGrant");
pub const LEASE_REVOKE: Method<LeaseRevokeRequest, LeaseRevokeResponse> =
    Method::new("/etcdserverpb.Lease/LeaseRevoke");
/// Streams both ways.
pub const LEASE_KEEP_ALIVE: Method<LeaseKeepAliveRequest, LeaseKeepAliveResponse> =
    Method::new("/etcdserverpb.Lease/LeaseKeepAlive");
pub const LEASE_TIME_TO_LIVE: Method<LeaseTimeToLiveRequest, LeaseTimeToLiveResponse> =
    Method::new("/etcdserverpb.Lease/LeaseTimeToLive");
pub const LEASE_LEASES: Method<LeaseLeasesRequest, LeaseLeasesResponse> =
    Method::new("/etcdserverpb.Lease/LeaseLeases");

pub const MEMBER_LIST: Method<MemberListRequest, MemberListResponse> =
    Method::new("/etcdserverpb.Cluster/MemberList");

pub const ALARM: Method<AlarmRequest, AlarmResponse> =
    Method::new("/etcdserverpb.Maintenance/Alarm");
pub const STATUS: Method<StatusRequest, StatusResponse> =
    Method::new("/etcdserverpb.Maintenance/Status");
pub const DEFRAGMENT: Method<DefragmentRequest, DefragmentResponse> =
    Method::new("/etcdserverpb.Maintenance/Defragment");
pub const HASH: Method<HashRequest, HashResponse> = Method::new("/etcdserverpb.Maintenance/Hash");
pub const HASH_KV: Method<HashKvRequest, HashKvResponse> =
    Method::new("/etcdserverpb.Maintenance/HashKV");
/// Streams its answer.
pub const SNAPSHOT: Method<SnapshotRequest, SnapshotResponse> =
    Method::new("/etcdserverpb.Maintenance/Snapshot");
pub const MOVE_LEADER: Method<MoveLeaderRequest, MoveLeaderResponse> =
    Method::new("/etcdserverpb.Maintenance/MoveLeader");

pub const AUTH_STATUS: Method<AuthStatusRequest, AuthStatusResponse> =
    Method::new("/etcdserverpb.Auth/AuthStatus");
pub const AUTHENTICATE: Method<AuthenticateRequest, AuthenticateResponse> =
    Method::new("/etcdserverpb.Auth/Authenticate");
