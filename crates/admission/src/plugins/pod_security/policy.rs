//! What a namespace asks for: a level of the Pod Security Standards in a version, for each of three
//! modes. Pure.

use std::collections::BTreeMap;
use std::fmt;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

const LEVEL_HINT: &str = "must be one of privileged, baseline, restricted";
const VERSION_HINT: &str = r#"must be "latest" or "v1.x""#;

/// Stricter is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let all = [Self::Privileged, Self::Baseline, Self::Restricted];
        all.into_iter().find(|it| it.name() == text).ok_or(LEVEL_HINT)
    }
}

/// Of the standards: they go with Kubernetes 1.x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Minor(u64),
    Latest,
}

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let minor = text.strip_prefix("v1.").unwrap_or_default();
        let is_plain = minor == "0" || !minor.starts_with(['0', '+']);
        // As large as Go's int.
        let parsed = minor.parse().ok().filter(|it| is_plain && i64::try_from(*it).is_ok());
        parsed.map(Self::Minor).ok_or(VERSION_HINT)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl Standard {
    pub(super) const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };

    pub(super) fn is_privileged(self) -> bool {
        self.level == Level::Privileged
    }

    /// Without a level to speak of, the version does not count.
    fn is_equivalent(self, other: Self) -> bool {
        self.is_privileged() && other.is_privileged() || self == other
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

impl Default for Policy {
    fn default() -> Self {
        let privileged = Standard::PRIVILEGED;
        Self { enforce: privileged, audit: privileged, warn: privileged }
    }
}

type Labels = BTreeMap<String, String>;

impl Policy {
    pub(super) fn is_privileged(&self) -> bool {
        self.modes().into_iter().all(|(_, it)| it.is_privileged())
    }

    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.modes().into_iter().zip(other.modes()).all(|(a, b)| a.1.is_equivalent(b.1))
    }

    /// With their names, in the order in which they are shown.
    pub(super) fn modes(&self) -> [(&'static str, Standard); 3] {
        [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)]
    }

    /// What the labels of a namespace say, over `defaults`. Where they say nothing that can be
    /// read, what is enforced is the strictest, and nothing is warned of or recorded.
    pub(super) fn of(labels: Option<&Labels>, defaults: &Self) -> (Self, FieldErrors) {
        let mut policy = *defaults;
        let mut reading = Reading { labels, errors: FieldErrors::new() };
        let enforced = reading.read("enforce", Level::Restricted, &mut policy.enforce);
        reading.read("audit", Level::Privileged, &mut policy.audit);
        let warned = reading.read("warn", Level::Privileged, &mut policy.warn);
        // Who enforces a level is warned of what it would refuse, unless they say otherwise.
        if warned.level == Label::Absent
            && enforced.level == Label::Read
            && policy.enforce.level > policy.warn.level
        {
            policy.warn.level = policy.enforce.level;
            if warned.version == Label::Absent {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, reading.errors)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Absent,
    Read,
    Unreadable,
}

/// What became of the two labels of a mode.
struct Found {
    level: Label,
    version: Label,
}

struct Reading<'a> {
    labels: Option<&'a Labels>,
    errors: FieldErrors,
}

impl Reading<'_> {
    fn read(&mut self, mode: &str, otherwise: Level, standard: &mut Standard) -> Found {
        let Standard { level, version } = standard;
        Found {
            level: self.read_one(mode, Level::parse, otherwise, level),
            version: self.read_one(
                &format!("{mode}-version"),
                Version::parse,
                Version::Latest,
                version,
            ),
        }
    }

    fn read_one<T>(
        &mut self,
        label: &str,
        parse: fn(&str) -> Result<T, &'static str>,
        otherwise: T,
        place: &mut T,
    ) -> Label {
        let key = format!("{PREFIX}{label}");
        let Some(text) = self.labels.and_then(|it| it.get(&key)) else { return Label::Absent };
        match parse(text) {
            Ok(value) => {
                *place = value;
                Label::Read
            }
            Err(hint) => {
                *place = otherwise;
                let path = Path::new("metadata").child("labels").key(&key);
                self.errors.invalid(&path, text.as_str(), hint);
                Label::Unreadable
            }
        }
    }
}
