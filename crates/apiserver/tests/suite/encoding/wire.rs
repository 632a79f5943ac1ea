//! Upstream's protobuf read by another decoder than the server's, with message types written from
//! upstream's `generated.proto` files: the envelope, and enough of some kinds to see that fields
//! are where they should be.

use std::collections::HashMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub(crate) type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) raw: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) content_encoding: String,
    #[prost(string, tag = "4")]
    pub(crate) content_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeMeta {
    #[prost(string, tag = "1")]
    pub(crate) api_version: String,
    #[prost(string, tag = "2")]
    pub(crate) kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(string, tag = "4")]
    pub(crate) self_link: String,
    #[prost(string, tag = "5")]
    pub(crate) uid: String,
    #[prost(string, tag = "6")]
    pub(crate) resource_version: String,
    #[prost(message, optional, tag = "8")]
    pub(crate) creation_timestamp: Option<Time>,
    #[prost(map = "string, string", tag = "11")]
    pub(crate) labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Time {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

/// What every object starts with.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Object {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConfigMap {
    #[prost(map = "string, string", tag = "2")]
    pub(crate) data: HashMap<String, String>,
    #[prost(map = "string, bytes", tag = "3")]
    pub(crate) binary_data: HashMap<String, Vec<u8>>,
    #[prost(bool, optional, tag = "4")]
    pub(crate) immutable: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Lease {
    #[prost(message, optional, tag = "2")]
    pub(crate) spec: Option<LeaseSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseSpec {
    #[prost(string, optional, tag = "1")]
    pub(crate) holder_identity: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) lease_duration_seconds: Option<i32>,
    #[prost(message, optional, tag = "4")]
    pub(crate) renew_time: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Deployment {
    #[prost(message, optional, tag = "2")]
    pub(crate) spec: Option<DeploymentSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeploymentSpec {
    #[prost(int32, optional, tag = "1")]
    pub(crate) replicas: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub(crate) template: Option<PodTemplateSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodTemplateSpec {
    #[prost(message, optional, tag = "2")]
    pub(crate) spec: Option<PodSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSpec {
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<Container>,
    #[prost(bool, optional, tag = "11")]
    pub(crate) host_network: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) image: String,
}

/// The envelope of a value; panics where there is none.
pub(crate) fn envelope(value: &[u8]) -> Unknown {
    let rest = value.strip_prefix(b"k8s\0").expect("upstream's magic number");
    Unknown::decode(rest).expect("an envelope")
}

pub(crate) fn read<M: Message + Default>(value: &[u8]) -> M {
    M::decode(envelope(value).raw.as_slice()).expect("a message")
}
