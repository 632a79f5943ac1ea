//! One file per command: its flags and what it does.

mod access;
pub(crate) mod admit;
pub(crate) mod apiserver;
pub(crate) mod clean;
pub(crate) mod completion;
pub(crate) mod controller_manager;
pub(crate) mod down;
pub(crate) mod enroll;
pub(crate) mod image;
pub(crate) mod join;
pub(crate) mod kubeconfig;
pub(crate) mod kubelet;
pub(crate) mod leave;
pub(crate) mod list;
mod manifest;
pub(crate) mod netpol;
pub(crate) mod network;
mod next_steps;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod remote;
pub(crate) mod scheduler;
pub(crate) mod service_accounts;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod up;
pub(crate) mod version;
pub(crate) mod ways;

use anyhow::{Context as _, Result};

/// How a command shows what it found.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

fn render_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string_pretty(value).context("rendering JSON")
}
