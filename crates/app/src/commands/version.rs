//! `xebec version`: what this binary is, without any cluster.

use anyhow::Result;
use serde::Serialize;

use super::{Output, render_json};
use crate::control_plane::KUBERNETES_VERSION;
use crate::node;
use crate::progress::say;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to show it
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: &'static str,
    /// As clusters of this binary show it.
    kubernetes_version: &'static str,
    platform: String,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        kubernetes_version: KUBERNETES_VERSION,
        platform: format!("linux/{}", node::architecture()),
    };
    match flags.output {
        Output::Json => say(&render_json(&version)?),
        Output::Text => {
            say(&format!("xebec {}", version.version));
            say(&format!("Kubernetes {}", version.kubernetes_version));
            say(&format!("Platform {}", version.platform));
        }
    }
    Ok(())
}
