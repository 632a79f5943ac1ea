//! Images. Field numbers are those of CRI v1 (k8s.io/cri-api, runtime/v1/api.proto); fields that
//! nothing here reads or writes are left out, and skipped when they come.

use std::collections::BTreeMap;

use super::container::Int64Value;
use super::stats::FilesystemUsage;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(crate) image: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(string, tag = "18")]
    pub(crate) user_specified_image: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Image {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) repo_digests: Vec<String>,
    #[prost(uint64, tag = "4")]
    pub(crate) size: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) uid: Option<Int64Value>,
    #[prost(string, tag = "6")]
    pub(crate) username: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) images: Vec<Image>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<Image>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AuthConfig {
    #[prost(string, tag = "1")]
    pub(crate) username: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
    #[prost(string, tag = "4")]
    pub(crate) server_address: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PullImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(message, optional, tag = "2")]
    pub(crate) auth: Option<AuthConfig>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PullImageResponse {
    #[prost(string, tag = "1")]
    pub(crate) image_ref: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageFsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) image_filesystems: Vec<FilesystemUsage>,
}
