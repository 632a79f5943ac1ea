//! A volume's source to what should be at its path. Pure.

use k8s_openapi::api::core::v1::{Pod, Volume};

use crate::pod_facts::PodFacts;

/// Shown as `MountVolume.SetUp failed for volume "x" : <this>`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Placeholder(String),
}

pub fn render(
    pod: &Pod,
    volume: &Volume,
    facts: &PodFacts,
) -> Result<node_api::volumes::Volume, Error> {
    let _ = (pod, volume, facts);
    Err(Error::Placeholder("not yet".to_owned()))
}
