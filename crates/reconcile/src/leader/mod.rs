//! Leader election over a Lease: of several copies of a component one leads, and the others wait.
//!
//! Whether another's lease is over is judged by how long it has not changed on our own clock, so
//! that clocks need not agree. Promises at most one leader as long as every copy's clock runs at
//! nearly the same speed. Those who wait watch the Lease: one that is freed is taken at once.

mod metrics;
mod terms;

use std::future::Future;
use std::time::Duration;

use api::Resource as _;
use api::coordination::lease::Lease;
use apimachinery::ApiError;
use client::{Client, ListOptions, WatchEvent, WatchEventKind, WatchStream};
use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use lifecycle::{Shutdown, Tasks};
use stdx::World;
use telemetry::Registry;
use tokio::time::Instant;

use self::metrics::Metrics;
pub use self::terms::{Terms, TermsError};

/// Who stands for election, and for what.
pub struct Election {
    pub client: Client,
    pub world: World,
    pub name: &'static str,
    /// Tells this candidate from all others, those of earlier processes included.
    pub identity: String,
    pub terms: Terms,
    /// Where it is shown who leads.
    pub metrics: Registry,
}

/// Runs `lead` only while holding the lease. `lead` gets tasks that are cancelled when the lease is
/// lost; it leads once: after a loss it is over, and `lost` is told, so that the process can end and
/// somebody start it anew. Who is shut down has lost nothing.
pub fn with_leadership<F>(
    tasks: &Tasks,
    election: Election,
    lead: impl FnOnce(Tasks) -> F + Send + 'static,
    lost: impl FnOnce() + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let followers = tasks.child(election.name);
    let mut candidate = Candidate::new(election);
    tasks.spawn(&candidate.task(), |shutdown| async move {
        if candidate.serve_term(&followers, lead, &shutdown).await == End::Lost {
            lost();
        }
    });
}

/// The same for a process that has more to do than to lead: after a loss, when everything that
/// `lead` started has ended, it stands again.
pub fn with_leaderships<F>(
    tasks: &Tasks,
    election: Election,
    mut lead: impl FnMut(Tasks) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let parent = tasks.clone();
    let mut candidate = Candidate::new(election);
    tasks.spawn(&candidate.task(), |shutdown| async move {
        while !shutdown.is_cancelled() {
            let followers = parent.child(candidate.election.name);
            candidate.serve_term(&followers, &mut lead, &shutdown).await;
            followers.ended().await;
        }
    });
}

/// How a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lost,
    Shutdown,
}

struct Candidate {
    election: Election,
    /// The lease as last seen, and since when it looks like that.
    seen: Option<(LeaseSpec, Instant)>,
    /// Of the lease as last seen, to watch from.
    version: Option<String>,
    /// As we wrote it last, and nobody else since, as far as we know.
    held: Option<Lease>,
    metrics: Metrics,
}

impl Candidate {
    fn new(election: Election) -> Self {
        let metrics = Metrics::new(&election.metrics, election.name);
        Self { election, seen: None, version: None, held: None, metrics }
    }

    /// What the task that stands is called.
    fn task(&self) -> String {
        format!("leader/{}", self.election.name)
    }

    /// Waits for the lease and leads until it is lost, or until shutdown.
    async fn serve_term<F: Future<Output = ()>>(
        &mut self,
        followers: &Tasks,
        lead: impl FnOnce(Tasks) -> F,
        shutdown: &Shutdown,
    ) -> End {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return End::Shutdown,
            () = self.acquire() => {}
        }
        let (lease, identity) = (self.election.name, self.election.identity.clone());
        tracing::info!(lease, identity, "leading");
        self.metrics.leads(true);
        let leading = async {
            lead(followers.clone()).await;
            // Those it started still need the lease.
            std::future::pending::<()>().await;
        };
        let end = tokio::select! {
            biased;
            () = shutdown.cancelled() => End::Shutdown,
            () = self.hold() => End::Lost,
            () = leading => End::Shutdown,
        };
        followers.cancel();
        self.metrics.leads(false);
        self.held = None;
        match end {
            End::Lost => tracing::error!(lease, identity, "lost the lease"),
            End::Shutdown => self.release().await,
        }
        end
    }

    async fn acquire(&mut self) {
        loop {
            match self.try_hold().await {
                Ok(true) => return,
                Ok(false) => {
                    if self.watch_until_free().await {
                        continue;
                    }
                }
                Err(err) if err.is_conflict() || err.is_already_exists() => {}
                Err(err) => {
                    tracing::warn!(lease = self.election.name, error = %err, "the lease cannot be read or written");
                }
            }
            let random = &self.election.world.random;
            tokio::time::sleep(random.jitter(self.election.terms.retry_period, 0.2)).await;
        }
    }

    /// Waits until the lease may be free: given back, deleted or over. False if the watch failed or
    /// ended before: who may read and not watch asks again from time to time.
    async fn watch_until_free(&mut self) -> bool {
        let Some(mut events) = self.watch().await else { return false };
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = tokio::time::sleep_until(self.over_at()) => return true,
            };
            let Some(Ok(WatchEvent { kind, object, .. })) = event else { return false };
            match kind {
                WatchEventKind::Bookmark => continue,
                WatchEventKind::Deleted => return true,
                WatchEventKind::Added | WatchEventKind::Modified => {}
            }
            let Ok(lease) = object.typed(Lease::decode) else { return false };
            self.version = lease.metadata.resource_version.clone();
            if !self.is_held_by_another(&lease.spec.clone().unwrap_or_default()) {
                return true;
            }
        }
    }

    async fn watch(&self) -> Option<WatchStream> {
        let terms = &self.election.terms;
        let options = ListOptions {
            field_selector: Some(format!("metadata.name={}", terms.lease_name(self.election.name))),
            resource_version: self.version.clone(),
            ..ListOptions::default()
        };
        let api = self.election.client.api::<Lease>();
        let opened = api.watch(&terms.namespace, options);
        let opened = tokio::time::timeout(terms.renew_deadline, opened).await;
        opened.ok().and_then(Result::ok)
    }

    /// When the lease is over if it looks as it does now until then.
    fn over_at(&self) -> Instant {
        match &self.seen {
            Some((spec, since)) => *since + self.duration_of(spec),
            None => Instant::now(),
        }
    }

    fn duration_of(&self, spec: &LeaseSpec) -> Duration {
        let seconds = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok());
        seconds.map_or(self.election.terms.lease_duration, Duration::from_secs)
    }

    /// Returns when the lease could not be renewed in time.
    async fn hold(&mut self) {
        let mut renewed_at = Instant::now();
        loop {
            tokio::time::sleep(self.election.terms.retry_period).await;
            let deadline = renewed_at + self.election.terms.renew_deadline;
            match tokio::time::timeout_at(deadline, self.try_hold()).await {
                Ok(Ok(true)) => renewed_at = Instant::now(),
                // Somebody else has it: there is nothing to wait for.
                Ok(Ok(false)) | Err(_) => return,
                Ok(Err(err)) => {
                    tracing::warn!(lease = self.election.name, error = %err, "the lease was not renewed");
                    if Instant::now() >= deadline {
                        return;
                    }
                }
            }
        }
    }

    /// Takes or renews the lease if it is free, ours or over. Whether it is ours now.
    async fn try_hold(&mut self) -> Result<bool, ApiError> {
        let api = self.election.client.api::<Lease>();
        let now = MicroTime(self.election.world.clock.now());
        if let Some(mut lease) = self.held.take() {
            lease.spec = Some(self.spec(lease.spec.take(), now.clone()));
            if self.write(lease).await.is_ok() {
                return Ok(true);
            }
            self.metrics.asked_again();
        }
        let terms = &self.election.terms;
        let stored = match api.get(&terms.namespace, terms.lease_name(self.election.name)).await {
            Ok(lease) => lease,
            Err(err) if err.is_not_found() => {
                api.create(self.lease(self.spec(None, now))).await?;
                return Ok(true);
            }
            Err(err) => return Err(err),
        };
        self.version = stored.metadata.resource_version.clone();
        let spec = stored.spec.clone().unwrap_or_default();
        if self.is_held_by_another(&spec) {
            return Ok(false);
        }
        let mut lease = (*stored).clone();
        lease.spec = Some(self.spec(Some(spec), now));
        self.write(lease).await?;
        Ok(true)
    }

    /// Only over what it was made from.
    async fn write(&mut self, lease: Lease) -> Result<(), ApiError> {
        let held = self.election.client.api::<Lease>().update(lease).await?.object()?;
        self.seen = held.spec.clone().map(|it| (it, Instant::now()));
        self.held = Some(Lease::clone(&held));
        Ok(())
    }

    fn is_held_by_another(&mut self, spec: &LeaseSpec) -> bool {
        let since = match &self.seen {
            Some((seen, since)) if seen == spec => *since,
            _ => Instant::now(),
        };
        self.seen = Some((spec.clone(), since));
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let is_over = since.elapsed() >= self.duration_of(spec);
        !holder.is_empty() && holder != self.election.identity && !is_over
    }

    fn lease(&self, spec: LeaseSpec) -> Lease {
        let terms = &self.election.terms;
        let metadata = ObjectMeta {
            namespace: Some(terms.namespace.clone()),
            name: Some(terms.lease_name(self.election.name).to_owned()),
            ..ObjectMeta::default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    fn spec(&self, before: Option<LeaseSpec>, now: MicroTime) -> LeaseSpec {
        let before = before.unwrap_or_default();
        let is_ours = before.holder_identity.as_deref() == Some(&self.election.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.election.identity.clone()),
            lease_duration_seconds: i32::try_from(self.election.terms.lease_duration.as_secs())
                .ok(),
            acquire_time: if is_ours { before.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(if is_ours || before.holder_identity.is_none() {
                transitions
            } else {
                transitions + 1
            }),
            ..before
        }
    }

    /// Lets another lead at once. If it fails, the lease runs out by itself.
    async fn release(&mut self) {
        let api = self.election.client.api::<Lease>();
        let terms = &self.election.terms;
        let freed = async {
            let name = terms.lease_name(self.election.name);
            let mut lease = (*api.get(&terms.namespace, name).await?).clone();
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.election.identity) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                api.update(lease).await?;
            }
            Ok::<(), ApiError>(())
        };
        match tokio::time::timeout(terms.retry_period, freed).await {
            Ok(Ok(())) => {}
            Ok(Err(err)) => {
                tracing::debug!(lease = self.election.name, error = %err, "the lease was not released");
            }
            Err(_) => {
                tracing::debug!(lease = self.election.name, "releasing the lease took too long")
            }
        }
    }
}

#[cfg(test)]
mod tests;
