//! What pods and nodes are made of.

pub(super) mod config_maps;
pub(super) mod devices;
pub(super) mod leases;
pub(super) mod nodes;
pub(super) mod pod_templates;
pub(super) mod pods;
pub(super) mod runtime_classes;
pub(super) mod secrets;
pub(super) mod taints;
