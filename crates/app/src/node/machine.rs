//! What the machine says of itself.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use kubelet::{Machine, Pools};
use linux::netlink::route::{Destination, RouteSocket};

/// More are not asked anyway.
const NAME_SERVERS_MAX: usize = 3;

pub(crate) fn read(data_dir: &Path) -> Machine {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let name = rustix::system::uname();
    Machine {
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32,
        memory: memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        ephemeral_storage: rustix::fs::statvfs(data_dir)
            .map_or(0, |it| it.f_blocks.saturating_mul(it.f_frsize)),
        huge_pages: huge_pages(),
        machine_id: id(),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        kernel_version: name.release().to_string_lossy().into_owned(),
        os_image: os_image(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
        architecture: architecture().to_owned(),
        has_app_armor: line("/sys/module/apparmor/parameters/enabled") == "Y",
        has_se_linux: Path::new("/sys/fs/selinux/enforce").exists(),
    }
}

/// Of this installation of a system; the same as long as it is.
pub(crate) fn id() -> String {
    fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned()
}

/// Where the kernel counts them by cgroup; else one pod could use another's.
fn huge_pages() -> Pools {
    let controllers = fs::read_to_string("/proc/cgroups").unwrap_or_default();
    let is_counted = controllers.lines().any(|it| it.starts_with("hugetlb\t"));
    let pools = fs::read_dir("/sys/kernel/mm/hugepages").ok().filter(|_| is_counted);
    let pool = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?;
        let pages = fs::read_to_string(entry.path().join("nr_hugepages")).ok()?;
        let size = kib.checked_mul(1024)?;
        Some((size, size.checked_mul(pages.trim().parse().ok()?)?))
    };
    pools.into_iter().flatten().flatten().filter_map(pool).collect()
}

/// Bytes of `MemTotal`.
fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:")).unwrap_or("");
    let kib: u64 = line.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0);
    kib * 1024
}

fn os_image(os_release: &str) -> String {
    let line = os_release.lines().find_map(|it| it.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches('"').to_owned()
}

/// As Go, and so Kubernetes, calls it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The addresses that packets to the outside are sent from, of each family that has a way there,
/// IPv4 first.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let find = || -> Result<Vec<IpAddr>, linux::netlink::Error> {
        let mut socket = RouteSocket::open()?;
        let mut addresses = Vec::new();
        for default in [Destination::DEFAULT, Destination::DEFAULT_IPV6] {
            let interface = socket.default_interface_to(default)?;
            addresses.extend(interface.map(|it| it.address));
        }
        Ok(addresses)
    };
    find().unwrap_or_else(|err| {
        tracing::warn!(error = %stdx::error_chain(&err), "default route not read");
        Vec::new()
    })
}

/// The servers of `/etc/resolv.conf`; what stands behind a stub on this machine where there is one.
pub(crate) fn name_servers() -> Vec<SocketAddr> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut servers = parse_name_servers(&read("/etc/resolv.conf"));
    if servers.iter().all(|it| it.ip().is_loopback()) {
        // systemd-resolved's stub would answer us, but it is behind a loop when it asks the
        // cluster's DNS.
        let behind = parse_name_servers(&read("/run/systemd/resolve/resolv.conf"));
        if !behind.is_empty() {
            servers = behind;
        }
    }
    servers
}

fn parse_name_servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let servers = node_api::resolv_conf::parse(resolv_conf).servers.into_iter();
    servers.map(|it| SocketAddr::new(it, 53)).take(NAME_SERVERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::{memory, os_image, parse_name_servers};

    #[test]
    fn files_of_the_machine_are_read() {
        assert_eq!(memory("MemTotal:       24576000 kB\nMemFree: 1 kB"), 24_576_000 * 1024);
        assert_eq!(
            os_image("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
            "Debian GNU/Linux 12"
        );
        let servers =
            parse_name_servers("search a\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n");
        assert_eq!(servers, ["192.0.2.1:53".parse().unwrap()]);
    }
}
