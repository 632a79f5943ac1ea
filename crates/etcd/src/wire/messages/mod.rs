//! The messages of etcd's v3 API that we speak, with etcd's names and field numbers (`rpc.proto`,
//! `kv.proto`). Fields we neither read nor write are left out: protobuf skips them.

mod cluster;
mod kv;
mod lease;
mod maintenance;
mod txn;
mod watch;

pub use cluster::*;
pub use kv::*;
pub use lease::*;
pub use maintenance::*;
pub use txn::*;
pub use watch::*;

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(int64, tag = "3")]
    pub revision: i64,
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}
