//! What DaemonSets and StatefulSets share: sets of pods with a history of their template. How the
//! set itself is read and written; what is done with its pods is for each to say.

use std::sync::Arc;
use std::time::Duration;

use api::core::pod::PodView;
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use k8s_openapi::api::apps::v1::{DaemonSetStatus, StatefulSetStatus};
use reconcile::{Controller, Failed, Next, Outcome as _, OwnWrites, PATIENCE};

use crate::claims::Claims;
use crate::explanations::Explanations;
use crate::history::Templated;
use crate::pod_control::PodControl;
use crate::workload::{self, BY_SELECTOR};
use crate::{Startup, owners};

/// What is said of a set. A template whose name is taken is counted in it.
pub(crate) trait SetStatus: Clone + Default + PartialEq + Send + Sync {
    fn collisions(&mut self) -> &mut Option<i32>;
}

macro_rules! set_status {
    ($($status:ty),*) => {$(
        impl SetStatus for $status {
            fn collisions(&mut self) -> &mut Option<i32> {
                &mut self.collision_count
            }
        }
    )*};
}

set_status!(DaemonSetStatus, StatefulSetStatus);

pub(crate) trait PodSet: Templated + Clone {
    type Status: SetStatus;

    fn status_mut(&mut self) -> &mut Option<Self::Status>;
    fn status(&self) -> Option<&Self::Status>;
}

/// A kind that has its selector, template and status where both have them.
macro_rules! pod_set {
    ($kind:ty, $status:ty, $hash_label:expr) => {
        impl $crate::workload::Workload for $kind {
            fn pod_selector(
                &self,
            ) -> Result<apimachinery::selector::Labels, apimachinery::selector::Error> {
                let selector = self.spec.as_ref().map(|it| &it.selector);
                apimachinery::selector::Labels::from_selector(selector)
            }
        }

        impl $crate::history::Templated for $kind {
            const HASH_LABEL: &'static str = $hash_label;

            fn template(&self) -> Option<&k8s_openapi::api::core::v1::PodTemplateSpec> {
                self.spec.as_ref().map(|it| &it.template)
            }

            fn set_template(&mut self, template: k8s_openapi::api::core::v1::PodTemplateSpec) {
                self.spec.get_or_insert_default().template = template;
            }

            fn collisions(&self) -> i32 {
                self.status.as_ref().and_then(|it| it.collision_count).unwrap_or(0)
            }
        }

        impl $crate::sets::PodSet for $kind {
            type Status = $status;

            fn status_mut(&mut self) -> &mut Option<$status> {
                &mut self.status
            }

            fn status(&self) -> Option<&$status> {
                self.status.as_ref()
            }
        }
    };
}

pub(crate) use pod_set;

/// What a set waits for before it is planned again, with group and resource.
pub(crate) type Waits<const N: usize> = [(Option<Duration>, &'static str, &'static str); N];

/// An object may be gone before the cache saw it; then nobody else would wake the set.
pub(crate) fn until_shown<const N: usize>(waits: Waits<N>, next: Option<Duration>) -> Next {
    let waits = waits.into_iter().filter_map(|(wait, _, _)| wait);
    waits.chain(next).min().map_or(Next::Settled, Next::After)
}

/// What a set waits for is told of when it has done so for this long: pods take a while to start.
const HOLD: Duration = Duration::from_secs(10);

pub(crate) struct Sets<T> {
    pub(crate) cache: Indexer<T>,
    pub(crate) writes: Arc<OwnWrites<T>>,
    /// As events, too: what describes a set shows those, and no conditions.
    pub(crate) explanations: Explanations,
    api: Api<T>,
}

impl<T: PodSet> Sets<T> {
    pub(crate) fn new(startup: &Startup<'_>, controller: &mut Controller) -> Self {
        Self {
            cache: controller.indexed_cache(&[(BY_SELECTOR, workload::index_by_selector)]),
            writes: controller.own_writes(PATIENCE),
            explanations: Explanations::new(HOLD),
            api: startup.client.api(),
        }
    }

    /// Takes and lets go of pods, if the set is still the one that was looked at.
    pub(crate) async fn claim(
        &self,
        key: &ObjectKey,
        set: &T,
        claims: &Claims<PodView>,
        pods: &PodControl<ObjectKey>,
    ) -> Result<(), Failed> {
        let is_there =
            claims.adopt.is_empty() || owners::is_still_there(&self.api, key, set).await?;
        if is_there {
            pods.claim(key, set, &claims.adopt, &claims.release).await?;
        }
        Ok(())
    }

    /// The name for the template is taken: another is tried.
    pub(crate) async fn count_collision(&self, key: &ObjectKey, set: &T) -> Result<(), Failed> {
        let mut status = set.status().cloned().unwrap_or_default();
        *status.collisions() = Some(set.collisions().saturating_add(1));
        self.write_status(key, set, status).await
    }

    pub(crate) async fn write_status(
        &self,
        key: &ObjectKey,
        set: &T,
        status: T::Status,
    ) -> Result<(), Failed> {
        if set.status() == Some(&status) {
            return Ok(());
        }
        // Pods took a while: written on what is known by now, or it would be refused.
        let latest = self.cache.get(key).filter(|it| it.metadata().uid == set.metadata().uid);
        let mut changed = latest.as_deref().unwrap_or(set).clone();
        *changed.status_mut() = Some(status);
        let written = self.api.update_status(changed).await.unless_gone();
        let written = written.map_err(Failed::to::<T>("update the status of", key))?;
        if let Some(written) = written {
            self.writes.wrote(key, written.meta());
        }
        Ok(())
    }
}
