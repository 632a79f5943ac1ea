//! What containers, sandboxes and images use.

use std::time::Duration;

use node_api::containers::{ContainerStats, FilesystemUsage, Usage};
use node_api::sandboxes::{InterfaceUsage, SandboxStats, Traffic};

use super::time;
use crate::messages as cri;

fn value(value: Option<&cri::UInt64Value>) -> u64 {
    value.map_or(0, |it| it.value)
}

fn usage(
    cpu: Option<&cri::CpuUsage>,
    memory: Option<&cri::MemoryUsage>,
    swap: Option<&cri::SwapUsage>,
) -> Usage {
    let cpu = cpu.and_then(|it| it.usage_core_nano_seconds.as_ref());
    let of_memory =
        |pick: fn(&cri::MemoryUsage) -> Option<&cri::UInt64Value>| value(memory.and_then(pick));
    Usage {
        cpu: Duration::from_nanos(value(cpu)),
        memory_working_set: of_memory(|it| it.working_set_bytes.as_ref()),
        memory_usage: of_memory(|it| it.usage_bytes.as_ref()),
        memory_rss: of_memory(|it| it.rss_bytes.as_ref()),
        swap: swap.and_then(|it| it.swap_usage_bytes.as_ref()).map(|it| it.value),
        page_faults: of_memory(|it| it.page_faults.as_ref()),
        major_page_faults: of_memory(|it| it.major_page_faults.as_ref()),
    }
}

pub(crate) fn filesystem(usage: &cri::FilesystemUsage) -> FilesystemUsage {
    let mountpoint = usage.fs_id.as_ref().map(|it| it.mountpoint.clone());
    FilesystemUsage {
        mountpoint: mountpoint.unwrap_or_default().into(),
        used_bytes: value(usage.used_bytes.as_ref()),
        inodes_used: value(usage.inodes_used.as_ref()),
    }
}

pub(crate) fn container_stats(stats: &cri::ContainerStats, now: jiff::Timestamp) -> ContainerStats {
    let at = stats.cpu.as_ref().map(|it| it.timestamp).filter(|it| *it > 0);
    ContainerStats {
        at: at.map_or(now, time),
        usage: usage(stats.cpu.as_ref(), stats.memory.as_ref(), stats.swap.as_ref()),
        writable_layer: stats.writable_layer.as_ref().map(filesystem),
    }
}

pub(crate) fn sandbox_stats(
    stats: &cri::LinuxPodSandboxStats,
    now: jiff::Timestamp,
) -> SandboxStats {
    let at = stats.cpu.as_ref().map(|it| it.timestamp).filter(|it| *it > 0);
    let network = stats.network.clone().unwrap_or_default();
    let all = network.default_interface.iter().chain(&network.interfaces);
    let process = stats.process.as_ref().and_then(|it| it.process_count.as_ref());
    SandboxStats {
        at: at.map_or(now, time),
        usage: usage(stats.cpu.as_ref(), stats.memory.as_ref(), None),
        interfaces: all.map(interface).collect(),
        n_processes: value(process),
    }
}

fn interface(usage: &cri::NetworkInterfaceUsage) -> InterfaceUsage {
    let traffic = |bytes: &Option<cri::UInt64Value>, errors: &Option<cri::UInt64Value>| Traffic {
        bytes: value(bytes.as_ref()),
        errors: value(errors.as_ref()),
    };
    InterfaceUsage {
        name: usage.name.clone(),
        received: traffic(&usage.rx_bytes, &usage.rx_errors),
        sent: traffic(&usage.tx_bytes, &usage.tx_errors),
    }
}
