//! The API itself: kinds of its own, discovery, watches, lists, namespaces.

pub(super) mod admission_policies;
pub(super) mod aggregated_discovery;
pub(super) mod aggregator;
pub(super) mod chunking;
pub(super) mod custom_resources;
pub(super) mod dependents;
pub(super) mod discovery;
pub(super) mod field_validation;
pub(super) mod flow_control;
pub(super) mod garbage_collector;
pub(super) mod namespaces;
pub(super) mod published_schemas;
pub(super) mod resource_quotas;
pub(super) mod watch;
pub(super) mod webhooks;
