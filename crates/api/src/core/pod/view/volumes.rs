//! What is kept of pods whose volumes are claims, for those who keep claims while they are used.

use serde::Deserialize;

use super::spec::There;

/// The claims that a pod's volumes are, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeClaimsPart {
    pub named: Box<[Box<str>]>,
    /// Of generic ephemeral volumes: those that are made for this pod, and that it owns. One of the
    /// name that somebody else owns is not the pod's.
    pub ephemeral: Box<[Box<str>]>,
}

impl VolumeClaimsPart {
    /// Both sorts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().chain(&self.ephemeral).map(|it| &**it)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    name: Option<Box<str>>,
    persistent_volume_claim: Option<Source>,
    ephemeral: Option<There>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    claim_name: Option<Box<str>>,
}

impl Volume {
    pub(super) fn is_claim(&self) -> bool {
        self.persistent_volume_claim.is_some()
    }

    pub(super) fn is_ephemeral(&self) -> bool {
        self.ephemeral.is_some()
    }
}

/// Absent for the many pods that have none.
pub(super) fn read(pod: &str, volumes: Option<&[Volume]>) -> Option<Box<VolumeClaimsPart>> {
    let volumes = volumes.unwrap_or_default();
    if !volumes.iter().any(|it| it.is_claim() || it.is_ephemeral()) {
        return None;
    }
    let named = volumes.iter().filter_map(|it| it.persistent_volume_claim.as_ref());
    let ephemeral = volumes.iter().filter(|it| it.is_ephemeral());
    let name = |it: &Volume| format!("{pod}-{}", it.name.as_deref().unwrap_or_default());
    Some(Box::new(VolumeClaimsPart {
        named: named.filter_map(|it| it.claim_name.clone()).collect(),
        ephemeral: ephemeral.map(|it| name(it).into_boxed_str()).collect(),
    }))
}
