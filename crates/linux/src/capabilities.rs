//! Capabilities by name, and the five sets of a process (capabilities(7)).

use std::io;

use rustix::thread::CapabilitySets;

/// In the order of their numbers.
const NAMES: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// A set, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    pub const NONE: Self = Self(0);

    /// All that this program knows.
    pub fn all() -> Self {
        Self((1 << NAMES.len()) - 1)
    }

    /// One by its name, with or without `CAP_`, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let name = name.strip_prefix("CAP_").unwrap_or(&name);
        NAMES.iter().position(|it| *it == name).map(|it| Self(1 << it))
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the prefix `CAP_`.
    pub fn names(self) -> Vec<String> {
        let has = |bit: usize| self.0 & (1 << bit) != 0;
        NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| has(*bit))
            .map(|(_, it)| format!("CAP_{it}"))
            .collect()
    }
}

/// What this thread may ever gain.
pub fn bounding() -> io::Result<Capabilities> {
    let mut set = 0;
    for number in 0..NAMES.len() {
        // SAFETY: PR_CAPBSET_READ takes a number and touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0) } == 1 {
            set |= 1 << number;
        }
    }
    Ok(Capabilities(set))
}

/// Nothing outside the set can be gained any more. Needs CAP_SETPCAP. Goes over capabilities that
/// this kernel has and this program does not know, too.
pub fn limit_bounding(kept: Capabilities) -> io::Result<()> {
    for number in (0..64).filter(|it| kept.0 & (1 << it) == 0) {
        // SAFETY: PR_CAPBSET_DROP takes a number and touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) } < 0 {
            let err = io::Error::last_os_error();
            // The first number that the kernel does not know.
            if err.raw_os_error() == Some(libc::EINVAL) && number > 0 {
                break;
            }
            return Err(err);
        }
    }
    Ok(())
}

pub fn set(
    effective: Capabilities,
    permitted: Capabilities,
    inheritable: Capabilities,
) -> io::Result<()> {
    use rustix::thread::CapabilitySet;
    let sets = CapabilitySets {
        effective: CapabilitySet::from_bits_retain(effective.0),
        permitted: CapabilitySet::from_bits_retain(permitted.0),
        inheritable: CapabilitySet::from_bits_retain(inheritable.0),
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Those given survive execution by a user other than root; they must be permitted and inheritable.
pub fn set_ambient(set: Capabilities) -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    for number in (0..NAMES.len()).filter(|it| set.0 & (1 << it) != 0) {
        // SAFETY: PR_CAP_AMBIENT_RAISE takes a number and touches no memory.
        let result =
            unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, number, 0, 0) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kernels() {
        assert_eq!(Capabilities::parse("cap_net_admin"), Some(Capabilities(1 << 12)));
        assert_eq!(Capabilities::parse("SYS_ADMIN"), Some(Capabilities(1 << 21)));
        assert_eq!(Capabilities::parse("CHECKPOINT_RESTORE"), Some(Capabilities(1 << 40)));
        assert_eq!(Capabilities::parse("FLY"), None);
        let both = Capabilities::parse("CHOWN").unwrap().union(Capabilities::parse("BPF").unwrap());
        assert_eq!(both.names(), ["CAP_CHOWN", "CAP_BPF"]);
    }
}
