//! Whether a pod must leave because of a device that it uses, and when. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::core::pod::PodView;
use api::resource::device_taint_rule::v1beta2::DeviceTaintRule;
use api::resource::{ResourceClaim, ResourceSlice};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::{
    DeviceRequestAllocationResult as Allocated, DeviceTaint, DeviceToleration,
};

pub(super) const NO_EXECUTE: &str = "NoExecute";

/// A claim that the pod names, with the slices of the pools that its devices are from.
pub(super) struct Used {
    pub(super) claim: Arc<ResourceClaim>,
    /// Whether it was made for a pod, and must be this one's.
    pub(super) is_made: bool,
    pub(super) slices: Vec<Arc<ResourceSlice>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    Wait(Duration),
    /// Due since then.
    Evict(Timestamp),
}

pub(super) fn plan(
    pod: &PodView,
    used: &[Used],
    rules: &[Arc<DeviceTaintRule>],
    now: Timestamp,
) -> Verdict {
    if pod.node().is_none() || !pod.is_active() {
        return Verdict::Stay;
    }
    let due = used.iter().filter(|it| is_its(it, pod)).filter_map(|it| due(it, rules, now)).min();
    let Some(due) = due else { return Verdict::Stay };
    match Duration::try_from(due.duration_since(now)) {
        Ok(left) if !left.is_zero() => Verdict::Wait(left),
        _ => Verdict::Evict(due),
    }
}

/// Whether it is the pod's to use: another of its name may have been.
fn is_its(used: &Used, pod: &PodView) -> bool {
    let owners = used.claim.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|it| it.controller == Some(true));
    let is_owned = !used.is_made || owners.any(|it| it.uid == pod.uid());
    let reserved = used.claim.status.iter().flat_map(|it| it.reserved_for.iter().flatten());
    is_owned && reserved.into_iter().any(|it| it.uid == pod.uid())
}

/// The devices that a claim was given.
pub(super) fn allocated(claim: &ResourceClaim) -> impl Iterator<Item = &Allocated> {
    let allocation = claim.status.as_ref().and_then(|it| it.allocation.as_ref());
    let devices = allocation.and_then(|it| it.devices.as_ref());
    devices.into_iter().flat_map(|it| it.results.iter().flatten())
}

/// When the first device may be used no longer.
fn due(used: &Used, rules: &[Arc<DeviceTaintRule>], now: Timestamp) -> Option<Timestamp> {
    let of_one = |device| {
        let published = taints(&used.slices, device).into_iter().cloned();
        let ruled = rules.iter().filter(|it| is_meant(it, device)).filter_map(|it| taint(it));
        published
            .chain(ruled)
            .filter_map(move |it| end(&it, device.tolerations.as_deref().unwrap_or_default(), now))
    };
    allocated(&used.claim).flat_map(of_one).min()
}

/// Whether a rule selects a device. One that says nothing of a part selects all of it.
pub(super) fn selects(rule: &DeviceTaintRule, [driver, pool, device]: [&str; 3]) -> bool {
    let Some(selector) = &rule.spec.device_selector else { return false };
    let fits = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|it| it == is);
    fits(&selector.driver, driver) && fits(&selector.pool, pool) && fits(&selector.device, device)
}

pub(super) fn is_meant(rule: &DeviceTaintRule, device: &Allocated) -> bool {
    selects(rule, [&device.driver, &device.pool, &device.device])
}

/// Driver, pool and name of each device in the newest slices of its pool.
pub(super) fn published(slices: &[Arc<ResourceSlice>]) -> impl Iterator<Item = [&str; 3]> {
    let place = |it: &ResourceSlice| (it.spec.driver.clone(), it.spec.pool.name.clone());
    let mut newest: BTreeMap<(String, String), i64> = BTreeMap::new();
    for slice in slices {
        let generation = newest.entry(place(slice)).or_insert(i64::MIN);
        *generation = slice.spec.pool.generation.max(*generation);
    }
    let is_newest =
        move |it: &&Arc<ResourceSlice>| newest.get(&place(it)) == Some(&it.spec.pool.generation);
    slices.iter().filter(is_newest).flat_map(|it| {
        let devices = it.spec.devices.iter().flatten();
        devices.map(|device| {
            [it.spec.driver.as_str(), it.spec.pool.name.as_str(), device.name.as_str()]
        })
    })
}

/// What a rule puts on devices, if it drives pods out.
pub(super) fn taint(rule: &DeviceTaintRule) -> Option<DeviceTaint> {
    let taint = &rule.spec.taint;
    (taint.effect == NO_EXECUTE).then(|| DeviceTaint {
        effect: taint.effect.clone(),
        key: taint.key.clone(),
        value: taint.value.clone(),
        time_added: taint.time_added.clone(),
    })
}

/// The taints of a device by the newest slices of its pool.
fn taints<'a>(slices: &'a [Arc<ResourceSlice>], device: &Allocated) -> Vec<&'a DeviceTaint> {
    let of_pool = || {
        let is_it = |it: &&Arc<ResourceSlice>| {
            it.spec.driver == device.driver && it.spec.pool.name == device.pool
        };
        slices.iter().filter(is_it)
    };
    let newest = of_pool().map(|it| it.spec.pool.generation).max();
    let devices = of_pool()
        .filter(|it| Some(it.spec.pool.generation) == newest)
        .flat_map(|it| it.spec.devices.iter().flatten());
    devices.filter(|it| it.name == device.device).flat_map(no_execute).collect()
}

pub(super) fn no_execute(
    device: &k8s_openapi::api::resource::v1::Device,
) -> impl Iterator<Item = &DeviceTaint> {
    device.taints.iter().flatten().filter(|it| it.effect == NO_EXECUTE)
}

/// Until when a taint is tolerated; absent: for ever. The shortest toleration counts.
fn end(taint: &DeviceTaint, tolerations: &[DeviceToleration], now: Timestamp) -> Option<Timestamp> {
    let since = taint.time_added.as_ref().map_or(now, |it| it.0);
    let is_meant =
        |it: &&DeviceToleration| it.effect.as_deref() == Some(NO_EXECUTE) && tolerates(it, taint);
    let mut seconds = None::<i64>;
    for toleration in tolerations.iter().filter(is_meant) {
        let given = toleration.toleration_seconds?.max(0);
        seconds = Some(seconds.map_or(given, |it| it.min(given)));
    }
    let tolerated = SignedDuration::from_secs(seconds.unwrap_or(0));
    Some(since.saturating_add(tolerated).unwrap_or(Timestamp::MAX))
}

fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let is_any = toleration.operator.as_deref() == Some("Exists");
    let value = |it: &Option<String>| it.clone().unwrap_or_default();
    (key.is_empty() || key == taint.key)
        && (is_any || value(&toleration.value) == value(&taint.value))
}
