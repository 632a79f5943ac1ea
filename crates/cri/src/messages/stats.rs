//! What containers, sandboxes and images use. Field numbers are those of CRI v1 (k8s.io/cri-api, runtime/v1/api.proto); fields that
//! nothing here reads or writes are left out, and skipped when they come.

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub(crate) mountpoint: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FilesystemUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) fs_id: Option<FilesystemIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub(crate) used_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(crate) inodes_used: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) usage_core_nano_seconds: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MemoryUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) working_set_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(crate) usage_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub(crate) rss_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "6")]
    pub(crate) page_faults: Option<UInt64Value>,
    #[prost(message, optional, tag = "7")]
    pub(crate) major_page_faults: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SwapUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "3")]
    pub(crate) swap_usage_bytes: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerStats {
    #[prost(message, optional, tag = "2")]
    pub(crate) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub(crate) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) writable_layer: Option<FilesystemUsage>,
    #[prost(message, optional, tag = "5")]
    pub(crate) swap: Option<SwapUsage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerStatsResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) stats: Option<ContainerStats>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NetworkInterfaceUsage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) rx_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "3")]
    pub(crate) rx_errors: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(crate) tx_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub(crate) tx_errors: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NetworkUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) default_interface: Option<NetworkInterfaceUsage>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) interfaces: Vec<NetworkInterfaceUsage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProcessUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) process_count: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxPodSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "2")]
    pub(crate) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "3")]
    pub(crate) network: Option<NetworkUsage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) process: Option<ProcessUsage>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) containers: Vec<ContainerStats>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxStats {
    #[prost(message, optional, tag = "2")]
    pub(crate) linux: Option<LinuxPodSandboxStats>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxStatsResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) stats: Option<PodSandboxStats>,
}
