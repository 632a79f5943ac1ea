//! The group storage.k8s.io: one folder per kind.

pub mod csi_node;

pub use csi_node::CSINode;
