//! `--feature-gates`: which of upstream's gates there are, and what was asked for.
//!
//! A gate can be set to what it is anyway. Where we have no second way it cannot be set to anything
//! else: a flag that does nothing would be a lie about what runs.

mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::nearest::nearest;
use crate::parse_bool;

/// How far a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

impl Stage {
    /// As `kubernetes_feature_enabled` has it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// One of upstream's gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    pub name: &'static str,
    pub stage: Stage,
    pub default: bool,
    pub is_locked: bool,
}

/// A gate that switches something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(&'static str);

impl Switch {
    /// Upstream's.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// Large answers are compressed for clients that take it.
pub const API_RESPONSE_COMPRESSION: Switch = Switch("APIResponseCompression");
/// A WebSocket to a pod takes the verb `create`, whatever its method.
pub const POD_WEBSOCKET_CREATE_PERMISSION: Switch =
    Switch("AuthorizePodWebsocketUpgradeCreatePermission");

/// ClusterTrustBundles can be served, and every node and ServiceAccount may read them.
pub const CLUSTER_TRUST_BUNDLE: Switch = Switch("ClusterTrustBundle");
/// Projected volumes may have them.
pub const CLUSTER_TRUST_BUNDLE_PROJECTION: Switch = Switch("ClusterTrustBundleProjection");
/// The status of a definition may say which generation it is about.
pub const CRD_OBSERVED_GENERATION_TRACKING: Switch = Switch("CRDObservedGenerationTracking");
/// DeviceTaintRules drive pods from devices.
pub const DRA_DEVICE_TAINT_RULES: Switch = Switch("DRADeviceTaintRules");
/// ResourcePoolStatusRequests are answered.
pub const DRA_RESOURCE_POOL_STATUS: Switch = Switch("DRAResourcePoolStatus");
/// Workloads and PodGroups can be served.
pub const GENERIC_WORKLOAD: Switch = Switch("GenericWorkload");
/// Autoscalers may say how far usage may be from its target.
pub const HPA_CONFIGURABLE_TOLERANCE: Switch = Switch("HPAConfigurableTolerance");
/// Autoscalers may leave no replica, and bring the first one back.
pub const HPA_SCALE_TO_ZERO: Switch = Switch("HPAScaleToZero");
/// StatefulSets may say how many of their pods may be away during an update.
pub const MAX_UNAVAILABLE_STATEFUL_SET: Switch = Switch("MaxUnavailableStatefulSet");
/// PodCertificateRequests can be served, and projected volumes have what comes of them.
pub const POD_CERTIFICATE_REQUEST: Switch = Switch("PodCertificateRequest");
/// StorageVersions are cleared of servers that are gone.
pub const STORAGE_VERSION_API: Switch = Switch("StorageVersionAPI");
/// StorageVersionMigrations can be served, and are carried out.
pub const STORAGE_VERSION_MIGRATOR: Switch = Switch("StorageVersionMigrator");

const SWITCHES: &[Switch] = &[
    API_RESPONSE_COMPRESSION,
    POD_WEBSOCKET_CREATE_PERMISSION,
    CLUSTER_TRUST_BUNDLE,
    CLUSTER_TRUST_BUNDLE_PROJECTION,
    CRD_OBSERVED_GENERATION_TRACKING,
    DRA_DEVICE_TAINT_RULES,
    DRA_RESOURCE_POOL_STATUS,
    GENERIC_WORKLOAD,
    HPA_CONFIGURABLE_TOLERANCE,
    HPA_SCALE_TO_ZERO,
    MAX_UNAVAILABLE_STATEFUL_SET,
    POD_CERTIFICATE_REQUEST,
    STORAGE_VERSION_API,
    STORAGE_VERSION_MIGRATOR,
];

/// Set many at once: those of one stage that were not set by name.
const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// How many names an error shows.
const NAMES_MAX: usize = 5;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("missing bool value for {0}")]
    NoValue(String),
    #[error(
        "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
    )]
    NoBool { name: String, value: String },
    #[error("unrecognized feature gate: {name}{}", did_you_mean(*.nearest))]
    Unknown { name: String, nearest: Option<&'static str> },
    #[error("cannot set feature gate {name} to {}, feature is locked to {default}", !.default)]
    Locked { name: &'static str, default: bool },
    #[error("cannot set feature gate {name} to true: xebec does not have this feature")]
    NotThere { name: &'static str },
    #[error("cannot set feature gate {name} to false: xebec has no way without this feature")]
    NotWithout { name: &'static str },
    #[error("cannot set {name} to {value}: xebec can change only a few gates, and not {}", shown(.gates))]
    NotAll { name: &'static str, value: bool, gates: Vec<&'static str> },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|it| format!(" (did you mean {it}?)")).unwrap_or_default()
}

fn shown(gates: &[&str]) -> String {
    let mut text = gates[..gates.len().min(NAMES_MAX)].join(", ");
    if gates.len() > NAMES_MAX {
        text.push_str(&format!(" and {} more", gates.len() - NAMES_MAX));
    }
    text
}

/// The gates as a component runs with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Those that were set, by name or by stage.
    set: BTreeMap<&'static str, bool>,
}

impl Gates {
    /// `A=true,B=false`. Spaces around names and values do not count; the last of several values
    /// does.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut asked: BTreeMap<&str, bool> = BTreeMap::new();
        for pair in text.split(',').filter(|it| !it.is_empty()) {
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => return Err(Error::NoValue(pair.trim().to_owned())),
            };
            let value = parse_bool(value)
                .ok_or_else(|| Error::NoBool { name: name.to_owned(), value: value.to_owned() })?;
            asked.insert(name, value);
        }
        let mut set = BTreeMap::new();
        for (name, value) in &asked {
            if !matches!(*name, ALL_ALPHA | ALL_BETA) {
                set.insert(allowed(name, *value)?.name, *value);
            }
        }
        for (name, stage) in [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)] {
            if let Some(value) = asked.get(name) {
                set_stage(&mut set, name, stage, *value)?;
            }
        }
        Ok(Self { set })
    }

    /// What a flag that is given several times means: later ones count.
    pub fn merge(all: impl IntoIterator<Item = Self>) -> Self {
        Self { set: all.into_iter().flat_map(|it| it.set).collect() }
    }

    pub fn is_enabled(&self, switch: Switch) -> bool {
        match self.set.get(switch.0) {
            Some(value) => *value,
            // The table is asked by tests whether it has every switch.
            None => find(switch.0).is_some_and(|it| it.default),
        }
    }

    /// Every gate and its value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (Gate, bool)> {
        let values =
            |gate: &Gate| (*gate, self.set.get(gate.name).copied().unwrap_or(gate.default));
        table::ALL.iter().map(values)
    }

    /// Those that were set to something, and are not alpha or beta any more: upstream warns that
    /// they will go.
    pub fn leaving(&self) -> impl Iterator<Item = (Gate, bool)> {
        let is_leaving = |gate: &Gate| matches!(gate.stage, Stage::Ga | Stage::Deprecated);
        self.set
            .iter()
            .filter_map(|(name, value)| Some((*find(name)?, *value)))
            .filter(move |(gate, _)| is_leaving(gate))
    }
}

fn find(name: &str) -> Option<&'static Gate> {
    let index = table::ALL.binary_search_by(|it| it.name.cmp(name)).ok()?;
    table::ALL.get(index)
}

fn is_switch(name: &str) -> bool {
    SWITCHES.iter().any(|it| it.0 == name)
}

/// The gate, if it may have this value.
fn allowed(name: &str, value: bool) -> Result<&'static Gate, Error> {
    let Some(gate) = find(name) else {
        let names = table::ALL.iter().map(|it| it.name).chain([ALL_ALPHA, ALL_BETA]);
        return Err(Error::Unknown { name: name.to_owned(), nearest: nearest(name, names) });
    };
    let &Gate { name, default, is_locked, .. } = gate;
    match value {
        _ if value == default || is_switch(name) => Ok(gate),
        _ if is_locked => Err(Error::Locked { name, default }),
        true => Err(Error::NotThere { name }),
        false => Err(Error::NotWithout { name }),
    }
}

fn set_stage(
    set: &mut BTreeMap<&'static str, bool>,
    name: &'static str,
    stage: Stage,
    value: bool,
) -> Result<(), Error> {
    let gates = table::ALL.iter().filter(|it| it.stage == stage && !set.contains_key(it.name));
    let gates: Vec<&Gate> = gates.filter(|it| it.default != value).collect();
    let fixed: Vec<_> = gates.iter().map(|it| it.name).filter(|it| !is_switch(it)).collect();
    if !fixed.is_empty() {
        return Err(Error::NotAll { name, value, gates: fixed });
    }
    set.extend(gates.iter().map(|it| (it.name, value)));
    Ok(())
}
