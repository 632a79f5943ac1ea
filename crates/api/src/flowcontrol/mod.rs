//! The group flowcontrol.apiserver.k8s.io: one folder per kind, and the objects that every cluster
//! starts with.

pub mod bootstrap;
pub mod flow_schema;
pub mod priority_level_configuration;

pub use flow_schema::FlowSchema;
pub use priority_level_configuration::PriorityLevelConfiguration;

/// The level, and the schema, of those who never wait.
pub const EXEMPT: &str = "exempt";
/// The level, and the schema, of whoever matches nothing else.
pub const CATCH_ALL: &str = "catch-all";
/// Whether the server keeps the spec of an object as it would make it.
pub const AUTO_UPDATE_ANNOTATION: &str = "apf.kubernetes.io/autoupdate-spec";

/// Whoever writes one of these believes that requests wait by it.
fn unheeded() -> Vec<String> {
    let warning = "spec: accepted, but requests wait by levels of its own on this server";
    vec![warning.to_owned()]
}
