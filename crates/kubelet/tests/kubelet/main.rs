//! The kubelet between a real control plane in memory and a node in memory: what the API shows, and
//! what the node was asked.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod certificates;
mod life;
mod metrics;
mod network;
mod registration;
mod resize;
mod setup;
mod sources;
mod volumes;
