//! Our own writes of slices that the cache may not show yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::discovery::endpoint_slice::EndpointSlice;
use apimachinery::ObjectKey;
use jiff::Timestamp;

use crate::{owners, pods};

/// After this long a write that never showed up was lost to us (written and deleted in between).
const EXPIRY: Duration = Duration::from_secs(30);

/// By Service, by slice: the resourceVersion that we wrote and when. An entry means that the cache has
/// not been seen at that version; it is dropped as soon as it has.
#[derive(Default)]
pub(crate) struct Written(Mutex<Services>);

type Services = BTreeMap<ObjectKey, BTreeMap<String, (u64, Timestamp)>>;

impl Written {
    fn lock(&self) -> MutexGuard<'_, Services> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, service: &ObjectKey, slice: &str, version: u64, now: Timestamp) {
        let mut services = self.lock();
        services.entry(service.clone()).or_default().insert(slice.to_owned(), (version, now));
    }

    pub(crate) fn forget(&self, service: &ObjectKey) {
        self.lock().remove(service);
    }

    pub(crate) fn forget_slice(&self, service: &ObjectKey, slice: &str) {
        if let Some(slices) = self.lock().get_mut(service) {
            slices.remove(slice);
        }
    }

    /// How long to wait, at most, for the cache to show our writes; an event comes before that.
    pub(crate) fn wait(
        &self,
        service: &ObjectKey,
        cached: &[Arc<EndpointSlice>],
        now: Timestamp,
    ) -> Option<Duration> {
        let mut services = self.lock();
        let written = services.get_mut(service)?;
        let shown: BTreeMap<&str, u64> =
            cached.iter().map(|it| (owners::name(&it.metadata), super::version(it))).collect();
        written.retain(|name, (version, at)| {
            let is_shown = shown.get(name.as_str()).is_some_and(|it| it >= version);
            !is_shown && !pods::remaining(*at, EXPIRY, now).is_zero()
        });
        let wait = written.values().map(|(_, at)| pods::remaining(*at, EXPIRY, now)).max();
        if wait.is_none() {
            services.remove(service);
        }
        wait
    }
}
