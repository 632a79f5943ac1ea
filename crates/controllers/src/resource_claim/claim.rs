//! Who uses a claim, and what becomes of it when nobody does. Pure.

use api::resource::ResourceClaim;
use k8s_openapi::api::resource::v1::ResourceClaimConsumerReference;

/// Whoever allocates devices to a claim keeps it until they are given back.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// One who uses the claim, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumer {
    Stays,
    /// It is gone, was replaced, or will not run again.
    Over,
}

/// The pod that the claim was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Stays,
    Over,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Release {
        /// Who still uses it.
        reserved_for: Vec<ResourceClaimConsumerReference>,
        /// Nobody does: its devices are for others.
        deallocates: bool,
    },
    /// Take our finalizer away.
    Unprotect,
    Delete,
}

pub(super) fn reserved(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    let status = claim.status.as_ref();
    status.and_then(|it| it.reserved_for.as_deref()).unwrap_or_default()
}

/// The next step. `has_released`: one of those before was a release: a claim that nobody has used
/// yet keeps what it was allocated.
pub(super) fn plan(
    claim: &ResourceClaim,
    consumers: &[Consumer],
    owner: Option<Owner>,
    has_released: bool,
) -> Option<Step> {
    let finalizers = claim.metadata.finalizers.iter().flatten();
    let is_protected = finalizers.into_iter().any(|it| it == FINALIZER);
    let is_deleting = claim.metadata.deletion_timestamp.is_some();
    let is_allocated = claim.status.as_ref().is_some_and(|it| it.allocation.is_some());
    let used = reserved(claim);
    let stays = used.iter().zip(consumers).filter(|it| *it.1 == Consumer::Stays);
    let remaining: Vec<ResourceClaimConsumerReference> = stays.map(|it| it.0.clone()).collect();
    if remaining.len() < used.len() {
        let deallocates = remaining.is_empty() && is_protected;
        return Some(Step::Release { reserved_for: remaining, deallocates });
    }
    if !remaining.is_empty() {
        return None;
    }
    if is_protected && is_deleting && is_allocated {
        return Some(Step::Release { reserved_for: Vec::new(), deallocates: true });
    }
    if is_protected && !is_allocated && (is_deleting || has_released) {
        return Some(Step::Unprotect);
    }
    (owner == Some(Owner::Over) && !is_deleting).then_some(Step::Delete)
}
