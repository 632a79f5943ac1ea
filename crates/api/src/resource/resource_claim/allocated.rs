//! Which device is meant, in what was allocated and in what drivers say of it.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::resource::v1::{
    AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim,
};

use crate::check::text;

/// A device, or one share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceId<'a> {
    driver: &'a str,
    pool: &'a str,
    device: &'a str,
    share: &'a str,
}

impl fmt::Display for DeviceId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)?;
        if self.share.is_empty() { Ok(()) } else { write!(f, "/{}", self.share) }
    }
}

impl<'a> From<&'a DeviceRequestAllocationResult> for DeviceId<'a> {
    fn from(it: &'a DeviceRequestAllocationResult) -> Self {
        let share = text(it.share_id.as_ref());
        Self { driver: &it.driver, pool: &it.pool, device: &it.device, share }
    }
}

impl<'a> From<&'a AllocatedDeviceStatus> for DeviceId<'a> {
    fn from(it: &'a AllocatedDeviceStatus) -> Self {
        let share = text(it.share_id.as_ref());
        Self { driver: &it.driver, pool: &it.pool, device: &it.device, share }
    }
}

pub(super) fn devices_of(claim: &ResourceClaim) -> BTreeSet<DeviceId<'_>> {
    let allocation = claim.status.as_ref().and_then(|it| it.allocation.as_ref());
    let devices = allocation.and_then(|it| it.devices.as_ref());
    let results = devices.and_then(|it| it.results.as_ref());
    results.into_iter().flatten().map(DeviceId::from).collect()
}

/// What is said of devices goes with them.
pub(super) fn drop_deallocated(claim: &mut ResourceClaim, stored: &ResourceClaim) {
    let Some(mut said) = claim.status.as_mut().and_then(|it| it.devices.take()) else { return };
    let here = devices_of(claim);
    let gone: BTreeSet<DeviceId<'_>> = devices_of(stored).difference(&here).copied().collect();
    said.retain(|it| !gone.contains(&DeviceId::from(it)));
    if let Some(status) = &mut claim.status {
        status.devices = Some(said).filter(|it| !it.is_empty());
    }
}
