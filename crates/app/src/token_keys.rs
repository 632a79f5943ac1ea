//! The flag about whose tokens of service accounts are taken, beside those that the cluster's own
//! key signs: of a cluster that is taken over, or whose key was changed.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use authn::pki::VerifyingKey;

#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "token-keys")]
pub(crate) struct Flags {
    /// Keys in PEM, public or private, that also may have signed tokens of service accounts, beside
    /// the cluster's own; may be given several times
    #[arg(long = "service-account-key-file", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Flags {
    pub(crate) fn load(&self) -> Result<Vec<VerifyingKey>> {
        let mut keys = Vec::new();
        for path in &self.files {
            let read = || Ok(VerifyingKey::load_all(&std::fs::read_to_string(path)?)?);
            let read: Result<Vec<VerifyingKey>> = read();
            keys.extend(
                read.with_context(|| format!("--service-account-key-file {}", path.display()))?,
            );
        }
        Ok(keys)
    }
}
