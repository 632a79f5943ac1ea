//! What of a component can be switched on and off: feature gates and API versions, with upstream's
//! table and upstream's words for what is wrong. Knows names alone; what a switch does is in the
//! component that asks for it.

mod gates;
mod nearest;
mod runtime_config;

pub use gates::{
    API_RESPONSE_COMPRESSION, CLUSTER_TRUST_BUNDLE, CLUSTER_TRUST_BUNDLE_PROJECTION,
    CRD_OBSERVED_GENERATION_TRACKING, DRA_DEVICE_TAINT_RULES, DRA_RESOURCE_POOL_STATUS,
    GENERIC_WORKLOAD, HPA_CONFIGURABLE_TOLERANCE, HPA_SCALE_TO_ZERO, MAX_UNAVAILABLE_STATEFUL_SET,
    POD_CERTIFICATE_REQUEST, POD_WEBSOCKET_CREATE_PERMISSION, STORAGE_VERSION_API,
    STORAGE_VERSION_MIGRATOR,
};
pub use gates::{Error as GatesError, Gate, Gates, Stage, Switch};
pub use runtime_config::{Error as RuntimeConfigError, RuntimeConfig, Served};

/// As Go's `strconv.ParseBool`.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
