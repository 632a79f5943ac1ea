//! Aggregation: parts of the API that other servers serve, behind Services of the cluster.
//!
//! APIServices say whose which version is. Each is looked at when it, its Service or the endpoints
//! of that change, and again after a while; what is found out is its condition, and what its server
//! says about itself is shown in discovery. Requests are passed on to servers that were found, with
//! the name of whoever asks. Nothing that such a server says is believed further than its own
//! version goes.

mod call;
mod endpoints;
mod forward;
mod identity;
mod metrics;
mod openapi;
mod published;
mod refresh;
mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Resource as _;
use api::apiregistration::APIService;
use api::apiregistration::api_service::availability::{self, Verdict};
use apimachinery::{ApiError, GroupResource, GroupVersion};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lifecycle::Shutdown;
use stdx::World;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::aggregated::{Aggregated, Remote};
use crate::cache::{Change, Observer};
use crate::own_calls;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Aggregator, Documenting, Passing, Streaming};
use crate::registry::Registry;

/// Servers that are looked at, at once.
const AT_ONCE: usize = 16;
/// After one that answered.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// After one that did not: as long, in the end.
const RETRY_FIRST: Duration = Duration::from_secs(1);

pub(crate) struct Aggregation {
    aggregated: Arc<Aggregated>,
    registry: Arc<Registry>,
    /// Versions whose server has to be looked at.
    pending: Mutex<BTreeSet<GroupVersion>>,
    changed: Notify,
    /// By which requests that this process passed on know it.
    own_name: String,
    openapi: openapi::Downloads,
    /// What others have to know of this server was changed.
    unpublished: Notify,
    metrics: metrics::Metrics,
}

impl Aggregation {
    pub(crate) fn shared(
        aggregated: &Arc<Aggregated>,
        registry: &Arc<Registry>,
        (world, metrics): (&World, &telemetry::Registry),
    ) -> Arc<Self> {
        Arc::new(Self {
            aggregated: aggregated.clone(),
            registry: registry.clone(),
            own_name: world.random.uuid(),
            pending: Mutex::default(),
            changed: Notify::new(),
            openapi: openapi::Downloads::default(),
            unpublished: Notify::new(),
            metrics: metrics::Metrics::new(metrics),
        })
    }

    pub(crate) fn spawn(self: &Arc<Self>, core: &Arc<Core>) {
        let (own, its) = (self.clone(), core.clone());
        core.tasks.spawn("aggregation", |shutdown| own.run(its, shutdown));
        let (own, its) = (self.clone(), core.clone());
        core.tasks.spawn("cluster-authentication-trust", |shutdown| async move {
            published::run(&its, &own.unpublished, shutdown).await;
        });
    }

    fn enqueue(&self, versions: impl IntoIterator<Item = GroupVersion>) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).extend(versions);
        self.changed.notify_one();
    }

    fn take_pending(&self) -> BTreeSet<GroupVersion> {
        std::mem::take(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is behind a Service, or was.
    fn enqueue_behind(&self, namespace: &str, service: &str) {
        let table = self.aggregated.table();
        let behind =
            table.remotes().filter(|it| it.namespace == namespace && it.service == service);
        let behind: Vec<GroupVersion> = behind.map(|it| it.group_version.clone()).collect();
        if !behind.is_empty() {
            self.enqueue(behind);
        }
    }

    fn observe_service(&self, change: &Change) {
        let decode = |it: &Arc<api::Stored>| APIService::decode(&it.bytes).ok();
        let now = change.object.as_ref().and_then(decode);
        let before = change.previous.as_ref().and_then(decode);
        self.metrics.changed(&change.latest().meta.key.name, before.as_ref(), now.as_ref());
        let versions = [before.as_ref(), now.as_ref()].into_iter().flatten().map(version_of);
        let versions: Vec<GroupVersion> = versions.collect();
        match &now {
            Some(service) => self.aggregated.set(service, self.is_built_in(&version_of(service))),
            None => versions.iter().for_each(|it| self.aggregated.remove(it)),
        }
        // Its condition is what is found out, not what brings it up again.
        let has_changed = match (&before, &now) {
            (Some(before), Some(now)) => before.spec != now.spec,
            _ => true,
        };
        if has_changed {
            self.enqueue(versions);
        }
    }

    /// What this server cannot do without is never another's.
    fn is_built_in(&self, version: &GroupVersion) -> bool {
        let mut own = self.registry.built_in().iter().map(|it| it.names());
        version.group != api::metrics::GROUP
            && own.any(|it| it.group == version.group && it.version == version.version)
    }

    async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        let mut due: BTreeMap<GroupVersion, Instant> = BTreeMap::new();
        let mut failures: BTreeMap<GroupVersion, u32> = BTreeMap::new();
        let mut running: BTreeSet<GroupVersion> = BTreeSet::new();
        let mut checks = FuturesUnordered::new();
        loop {
            let now = Instant::now();
            due.extend(self.take_pending().into_iter().map(|it| (it, now)));
            let ready = due.iter().filter(|(it, at)| **at <= now && !running.contains(*it));
            let room = AT_ONCE.saturating_sub(running.len());
            let ready: Vec<GroupVersion> = ready.map(|it| it.0.clone()).take(room).collect();
            for version in ready {
                due.remove(&version);
                running.insert(version.clone());
                checks.push(check(&core, version));
            }
            let waiting =
                due.iter().filter(|it| !running.contains(it.0) && running.len() < AT_ONCE);
            let next = waiting.map(|it| *it.1).min();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                Some((version, outcome)) = checks.next(), if !running.is_empty() => {
                    running.remove(&version);
                    if let Some(after) = outcome.wait(&version, &mut failures) {
                        due.entry(version).or_insert_with(|| Instant::now() + after);
                    }
                }
                () = tokio::time::sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            }
        }
    }
}

fn version_of(service: &APIService) -> GroupVersion {
    let spec = service.spec.as_ref();
    let text = |it: Option<&String>| it.cloned().unwrap_or_default();
    let group = text(spec.and_then(|it| it.group.as_ref()));
    GroupVersion::new(group, text(spec.and_then(|it| it.version.as_ref())))
}

/// What came of a look at one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nobody else serves it, or nothing is there to ask: a change brings it up again.
    Settled,
    Answered,
    Failed,
}

impl Outcome {
    /// How long until the next look.
    fn wait(
        self,
        version: &GroupVersion,
        failures: &mut BTreeMap<GroupVersion, u32>,
    ) -> Option<Duration> {
        if self != Self::Failed {
            failures.remove(version);
            return (self == Self::Answered).then_some(AGAIN_AFTER);
        }
        let n_failures = failures.entry(version.clone()).or_default();
        let wait = RETRY_FIRST.saturating_mul(1 << (*n_failures).min(5)).min(AGAIN_AFTER);
        *n_failures += 1;
        Some(wait)
    }
}

async fn check(core: &Arc<Core>, version: GroupVersion) -> (GroupVersion, Outcome) {
    let Some(remote) = core.aggregated.find(&version) else {
        return (version, Outcome::Settled);
    };
    let (verdict, endpoints) = match call::endpoints(core, &remote) {
        Err(verdict) => (verdict, Vec::new()),
        Ok(endpoints) => match refresh::answers(core, &remote, &endpoints).await {
            Ok(answering) => (Verdict::passed(), vec![answering]),
            Err(err) => {
                let path = openapi::path(&version);
                let why = format!(
                    "failing or missing response from https://{}:{}/{path}: {err}",
                    remote.host(),
                    remote.port
                );
                (Verdict::refused("FailedDiscoveryCheck", why), endpoints)
            }
        },
    };
    let (is_available, has_endpoints) = (verdict.is_available, !endpoints.is_empty());
    if is_available {
        // Before it is said to be there: who hears of it finds what it has.
        for endpoint in &endpoints {
            refresh::run(core, &remote, endpoint).await;
        }
    }
    let outcome = match write(core, &remote, verdict).await {
        Err(err) if !err.is_conflict() && !err.is_not_found() => {
            tracing::warn!(api_service = remote.name, error = %err, "a condition is not written");
            Outcome::Failed
        }
        Err(_) => Outcome::Failed,
        Ok(()) if is_available => Outcome::Answered,
        Ok(()) if has_endpoints => Outcome::Failed,
        Ok(()) => Outcome::Settled,
    };
    (version, outcome)
}

/// What was found out, if it is news.
async fn write(core: &Core, remote: &Remote, verdict: Verdict) -> Result<(), ApiError> {
    let found = core.find_shared::<APIService>("", &remote.name)?;
    if availability::is_local(&found) {
        return Ok(());
    }
    let mut better = APIService::clone(&found);
    let (reason, message) = (verdict.reason, verdict.message.clone());
    availability::set(&mut better, verdict, core.world.clock.now());
    if better == *found {
        return Ok(());
    }
    tracing::info!(api_service = remote.name, reason, message, "an APIService changes");
    own_calls::update(core, better, Some("status")).await
}

impl Observer for Aggregation {
    fn observe(&self, resource: &GroupResource, change: &Change) {
        match (resource.group.as_str(), resource.resource.as_str()) {
            ("apiregistration.k8s.io", "apiservices") => self.observe_service(change),
            ("", "configmaps") if published::is_it(&change.latest().meta.key) => {
                self.unpublished.notify_one();
            }
            ("", "services") => {
                let key = &change.latest().meta.key;
                self.enqueue_behind(&key.namespace, &key.name);
            }
            ("discovery.k8s.io", "endpointslices") => {
                for slice in [&change.previous, &change.object].into_iter().flatten() {
                    if let Some(service) = call::service_of(&slice.meta.labels) {
                        self.enqueue_behind(&slice.meta.key.namespace, service);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Aggregator for Aggregation {
    fn pass_on<'a>(
        &'a self,
        core: &'a Arc<Core>,
        remote: Arc<Remote>,
        passing: Passing,
    ) -> Streaming<'a> {
        Box::pin(async move { Ok(forward::pass_on(core, &self.own_name, &remote, passing).await) })
    }

    fn documents<'a>(&'a self, core: &'a Arc<Core>) -> Documenting<'a> {
        Box::pin(self.openapi.all(core))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_looked_at_each_half_minute_and_who_does_not_ever_more_rarely() {
        let version = GroupVersion::new("a", "v1");
        let mut failures = BTreeMap::new();
        let mut wait =
            |outcome: Outcome| outcome.wait(&version, &mut failures).map(|it| it.as_secs());
        assert_eq!(wait(Outcome::Settled), None);
        assert_eq!(wait(Outcome::Answered), Some(30));
        let waits: Vec<_> = (0..7).filter_map(|_| wait(Outcome::Failed)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(wait(Outcome::Answered), Some(30));
        assert_eq!(wait(Outcome::Failed), Some(1));
    }
}
