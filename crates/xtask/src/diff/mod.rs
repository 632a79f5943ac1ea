//! `cargo xtask diff api|controllers|extension`: ours beside upstream's, by what clients can see of
//! them.

mod api;
mod controllers;
mod extension;
mod server;

use std::ffi::OsString;

use anyhow::{Context as _, Result};

pub(crate) use api::api;
pub(crate) use controllers::controllers;
pub(crate) use extension::extension;

fn upstream_kubeconfig() -> Result<OsString> {
    std::env::var_os("UPSTREAM_KUBECONFIG")
        .context("UPSTREAM_KUBECONFIG names no API server of upstream's to compare with")
}
