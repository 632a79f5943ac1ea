//! Names of kernel settings as people write them, and the namespace that keeps each apart. The one
//! parser, and the one place that knows whom a setting reaches: what is validated, what is admitted
//! and what is written is the same name. Which of them a pod may ask for is the kubelet's decision.

/// As upstream bounds it.
pub const LENGTH_MAX: usize = 253;

/// Two spellings of one setting are equal: `net.ipv4.conf.eth0/1.forwarding` is
/// `net/ipv4/conf/eth0.1/forwarding` (sysctl.d(5)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

/// What the kernel keeps one value for each of. Everything else is the whole machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    Ipc,
    Network,
}

/// Which namespaces somebody has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnNamespaces {
    pub ipc: bool,
    pub network: bool,
}

impl Isolation {
    /// Whether a setting that is kept so reaches nobody else.
    pub fn is_within(self, own: OwnNamespaces) -> bool {
        match self {
            Self::Ipc => own.ipc,
            Self::Network => own.network,
        }
    }
}

/// ipc_namespaces(7); the rest of `kernel.shm*`, `kernel.msg*` and `kernel.sem*` does not belong to
/// it.
const OF_IPC: &[&str] = &[
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

impl Name {
    /// Segments of lower-case letters, digits, `-` and `_` that begin and end with a letter or a
    /// digit, between dots or slashes: nothing that could be a path upward, or an absolute one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |it: &u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        let is_segment = |it: &str| {
            let bytes = it.as_bytes();
            bytes.first().is_some_and(is_plain)
                && bytes.last().is_some_and(is_plain)
                && bytes.iter().all(|it| is_plain(it) || b"-_".contains(it))
        };
        let is_name = text.len() <= LENGTH_MAX && text.split(['.', '/']).all(is_segment);
        is_name.then(|| Self(normalized(text)))
    }

    /// Segments between dots; a slash is a dot that belongs to a segment.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Below `/proc/sys`.
    pub fn path(&self) -> String {
        swap_separators(&self.0)
    }

    /// `None`: the setting is the machine's.
    pub fn isolation(&self) -> Option<Isolation> {
        isolation(&self.0)
    }
}

fn isolation(name: &str) -> Option<Isolation> {
    match () {
        () if name.starts_with("net.") => Some(Isolation::Network),
        () if name.starts_with("fs.mqueue.") || OF_IPC.contains(&name) => Some(Isolation::Ipc),
        () => None,
    }
}

/// A name, or a prefix with `*` at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    is_prefix: bool,
    isolation: Isolation,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error(
        "sysctl {0:?} must have at most {LENGTH_MAX} characters and match regex \
         ([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
    )]
    Malformed(String),
    #[error("the sysctls {0:?} are not known to be namespaced")]
    NotIsolated(String),
}

impl Pattern {
    /// Only what some namespace isolates can be allowed at all.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let malformed = || PatternError::Malformed(text.to_owned());
        let (prefix, is_prefix) = text.strip_suffix('*').map_or((text, false), |it| (it, true));
        // A prefix may end anywhere: behind a separator, or within a segment.
        let whole = if is_prefix { format!("{prefix}0") } else { prefix.to_owned() };
        if text.len() > LENGTH_MAX || Name::parse(&whole).is_none() {
            return Err(malformed());
        }
        let text = normalized(prefix);
        let isolation = match text.as_str() {
            // Prefixes that upstream has always taken.
            "kernel.msg" | "kernel.shm" if is_prefix => Some(Isolation::Ipc),
            it => isolation(it),
        };
        let isolation = isolation.ok_or_else(|| PatternError::NotIsolated(text.clone()))?;
        Ok(Self { text, is_prefix, isolation })
    }

    pub fn matches(&self, name: &Name) -> bool {
        if self.is_prefix { name.0.starts_with(&self.text) } else { name.0 == self.text }
    }

    pub fn isolation(&self) -> Isolation {
        self.isolation
    }
}

/// The first separator says which one it is.
fn normalized(text: &str) -> String {
    match text.find(['.', '/']) {
        Some(first) if text.as_bytes()[first] == b'/' => swap_separators(text),
        _ => text.to_owned(),
    }
}

fn swap_separators(text: &str) -> String {
    let swap = |it| match it {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    text.chars().map(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_paths_that_stay_below() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let name = Name::parse(text);
            let seen = name.as_ref().map(|it| (it.as_str().to_owned(), it.path()));
            let seen = seen.as_ref().map(|(name, path)| (name.as_str(), path.as_str()));
            assert_eq!(seen, expected, "{text:?}");
        };
        check("net.ipv4.ip_forward", Some(("net.ipv4.ip_forward", "net/ipv4/ip_forward")));
        check("kernel/sem", Some(("kernel.sem", "kernel/sem")));
        let forwarding = Some(("net.ipv4.conf.e0/1.x", "net/ipv4/conf/e0.1/x"));
        check("net/ipv4/conf/e0.1/x", forwarding);
        check("net.ipv4.conf.e0/1.x", forwarding);
        for text in
            ["", "..", "../x", "net..x", "net/../../x", "/x", "x/", "net.", "Net.x", "net.x y", "*"]
        {
            check(text, None);
        }
        check(&"x".repeat(254), None);
    }

    #[test]
    fn only_what_a_namespace_isolates_is_isolated() {
        let check = |text: &str, expected: Option<Isolation>| {
            assert_eq!(Name::parse(text).unwrap().isolation(), expected, "{text:?}");
        };
        check("net.core.somaxconn", Some(Isolation::Network));
        check("net/core/somaxconn", Some(Isolation::Network));
        check("kernel.shmmax", Some(Isolation::Ipc));
        check("fs.mqueue.msg_max", Some(Isolation::Ipc));
        for text in [
            "vm.swappiness",
            "kernel.core_pattern",
            "kernel.shm_next_id_x",
            "kernel.semantic",
            "net",
            "netx.y",
            "fs.mqueue",
            "fs.mqueuex.y",
            "net/ipv4.x/../y",
        ] {
            let isolation = Name::parse(text).and_then(|it| it.isolation());
            assert_eq!(isolation, None, "{text:?}");
        }
    }

    #[test]
    fn patterns_allow_names_and_prefixes() {
        let pattern = |text: &str| Pattern::parse(text);
        let matches =
            |text: &str, name: &str| pattern(text).unwrap().matches(&Name::parse(name).unwrap());
        assert!(matches("net.core.somaxconn", "net/core/somaxconn"));
        assert!(!matches("net.core.somaxconn", "net.core.somaxconn2"));
        assert!(matches("net.ipv4.*", "net.ipv4.ip_forward"));
        assert!(matches("net/ipv4/*", "net.ipv4.ip_forward"));
        assert!(matches("net.ipv4.tcp_*", "net.ipv4.tcp_rmem"));
        assert!(matches("kernel.shm*", "kernel.shmmax"));
        assert!(!matches("kernel.shm*", "kernel.sem"));
        for text in ["kernel.*", "vm.*", "net*", "vm.swappiness", "user.max_user_namespaces"] {
            assert!(matches!(pattern(text), Err(PatternError::NotIsolated(_))), "{text:?}");
        }
        for text in ["", "*", "net.*.x", "net.**", "../*", "Net.*"] {
            assert!(pattern(text).is_err(), "{text:?}");
        }
    }
}
