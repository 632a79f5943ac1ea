//! Sandboxes. Field numbers are those of CRI v1 (k8s.io/cri-api, runtime/v1/api.proto); fields that
//! nothing here reads or writes are left out, and skipped when they come.

use std::collections::BTreeMap;

use super::container::LinuxContainerResources;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VersionRequest {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(crate) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(crate) runtime_version: String,
    #[prost(string, tag = "4")]
    pub(crate) runtime_api_version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DnsConfig {
    #[prost(string, repeated, tag = "1")]
    pub(crate) servers: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) searches: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) options: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PortMapping {
    #[prost(int32, tag = "1")]
    pub(crate) protocol: i32,
    #[prost(int32, tag = "2")]
    pub(crate) container_port: i32,
    #[prost(int32, tag = "3")]
    pub(crate) host_port: i32,
    #[prost(string, tag = "4")]
    pub(crate) host_ip: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct IdMapping {
    #[prost(uint32, tag = "1")]
    pub(crate) host_id: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) container_id: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) length: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UserNamespace {
    #[prost(int32, tag = "1")]
    pub(crate) mode: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) uids: Vec<IdMapping>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) gids: Vec<IdMapping>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(crate) network: i32,
    #[prost(int32, tag = "2")]
    pub(crate) pid: i32,
    #[prost(int32, tag = "3")]
    pub(crate) ipc: i32,
    #[prost(string, tag = "4")]
    pub(crate) target_id: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) userns_options: Option<UserNamespace>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SecurityProfile {
    #[prost(int32, tag = "1")]
    pub(crate) profile_type: i32,
    #[prost(string, tag = "2")]
    pub(crate) localhost_ref: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxSandboxSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub(crate) namespace_options: Option<NamespaceOption>,
    #[prost(int64, repeated, tag = "5")]
    pub(crate) supplemental_groups: Vec<i64>,
    #[prost(bool, tag = "6")]
    pub(crate) privileged: bool,
    #[prost(message, optional, tag = "9")]
    pub(crate) seccomp: Option<SecurityProfile>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxPodSandboxConfig {
    #[prost(string, tag = "1")]
    pub(crate) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) security_context: Option<LinuxSandboxSecurityContext>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) sysctls: BTreeMap<String, String>,
    #[prost(message, optional, tag = "4")]
    pub(crate) overhead: Option<LinuxContainerResources>,
    #[prost(message, optional, tag = "5")]
    pub(crate) resources: Option<LinuxContainerResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(uint32, tag = "4")]
    pub(crate) attempt: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "2")]
    pub(crate) hostname: String,
    #[prost(string, tag = "3")]
    pub(crate) log_directory: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) dns_config: Option<DnsConfig>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) port_mappings: Vec<PortMapping>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub(crate) linux: Option<LinuxPodSandboxConfig>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<PodSandboxConfig>,
    #[prost(string, tag = "2")]
    pub(crate) runtime_handler: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RunPodSandboxResponse {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxRequest {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodIp {
    #[prost(string, tag = "1")]
    pub(crate) ip: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxNetworkStatus {
    #[prost(string, tag = "1")]
    pub(crate) ip: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) additional_ips: Vec<PodIp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxStatus {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(message, optional, tag = "5")]
    pub(crate) network: Option<PodSandboxNetworkStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<PodSandboxStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxFilter {
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) label_selector: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) filter: Option<PodSandboxFilter>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<PodSandbox>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RuntimeCondition {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(bool, tag = "2")]
    pub(crate) status: bool,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
    #[prost(string, tag = "4")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub(crate) conditions: Vec<RuntimeCondition>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RuntimeHandlerFeatures {
    #[prost(bool, tag = "1")]
    pub(crate) recursive_read_only_mounts: bool,
    #[prost(bool, tag = "2")]
    pub(crate) user_namespaces: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RuntimeHandler {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) features: Option<RuntimeHandlerFeatures>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RuntimeFeatures {
    #[prost(bool, tag = "1")]
    pub(crate) supplemental_groups_policy: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<RuntimeStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) runtime_handlers: Vec<RuntimeHandler>,
    #[prost(message, optional, tag = "4")]
    pub(crate) features: Option<RuntimeFeatures>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerEventResponse {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}
