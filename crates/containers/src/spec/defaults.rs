//! What every container gets unless it asks otherwise, as containerd gives it.

use super::{Device, DeviceRule, Mount};

pub(super) const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) const CAPABILITIES: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

pub(super) const MASKED_PATHS: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

pub(super) const READONLY_PATHS: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Destination, type, options.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("/proc", "proc", "nosuid noexec nodev"),
    ("/dev", "tmpfs", "nosuid strictatime mode=755 size=65536k"),
    ("/dev/pts", "devpts", "nosuid noexec newinstance ptmxmode=0666 mode=0620 gid=5"),
    ("/dev/shm", "tmpfs", "nosuid noexec nodev mode=1777 size=65536k"),
    ("/dev/mqueue", "mqueue", "nosuid noexec nodev"),
    ("/sys", "sysfs", "nosuid noexec nodev ro"),
    ("/sys/fs/cgroup", "cgroup", "nosuid noexec nodev relatime ro"),
];

/// Read-only where a privileged container's are not.
pub(super) fn mounts(is_privileged: bool) -> impl Iterator<Item = Mount> {
    MOUNTS.iter().map(move |(destination, kind, options)| Mount {
        destination: (*destination).to_owned(),
        kind: (*kind).to_owned(),
        source: (*kind).to_owned(),
        options: options
            .split(' ')
            .map(|it| if is_privileged && it == "ro" { "rw" } else { it })
            .map(str::to_owned)
            .collect(),
    })
}

/// Name, major, minor: character devices that everybody may read and write.
const DEVICES: &[(&str, u32, u32)] = &[
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

pub(super) fn devices() -> impl Iterator<Item = Device> {
    DEVICES.iter().map(|(name, major, minor)| Device {
        path: format!("/dev/{name}"),
        kind: 'c',
        major: *major,
        minor: *minor,
        file_mode: 0o666,
    })
}

/// Nothing but the devices above, terminals and the console; making device nodes is allowed, using
/// them is not.
pub(super) fn device_rules() -> Vec<DeviceRule> {
    let rule = |allow, kind, major, minor, access: &str| DeviceRule {
        allow,
        kind,
        major,
        minor,
        access: access.to_owned(),
    };
    let mut rules = vec![
        rule(false, 'a', None, None, "rwm"),
        rule(true, 'c', None, None, "m"),
        rule(true, 'b', None, None, "m"),
    ];
    for (_, major, minor) in DEVICES {
        rules.push(rule(true, 'c', Some(*major), Some(*minor), "rwm"));
    }
    rules.push(rule(true, 'c', Some(5), Some(1), "rwm"));
    rules.push(rule(true, 'c', Some(5), Some(2), "rwm"));
    rules.push(rule(true, 'c', Some(136), None, "rwm"));
    rules
}

pub(super) fn all_devices() -> Vec<DeviceRule> {
    vec![DeviceRule { allow: true, kind: 'a', major: None, minor: None, access: "rwm".to_owned() }]
}
