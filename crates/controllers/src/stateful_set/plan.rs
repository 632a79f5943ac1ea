//! Which pods of a StatefulSet to make, to mend and to delete next, in which order, and what it
//! waits for otherwise. Pure.
//!
//! Worked example, ordered, three wanted, `web-0` ready and `web-1` not: nothing is done, since
//! `web-2` waits for `web-1`. When `web-1` is ready, `web-2` is made; when all three are, and the
//! template was changed, `web-2` is deleted, and made again from the new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::apps::{ControllerRevision, StatefulSet};
use api::core::pod::PodView;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSetStatus, StatefulSetUpdateStrategy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::claims::{self, Holder, Lookup};
use super::identity::{self, POD_NAME, REVISION};
use super::status;
use crate::explanations::Explanation;
use crate::share::{Round, resolve};
use crate::{owners, pods};

/// Pods made or deleted by one reconcile, at most; the next one goes on.
pub(super) const BURST: usize = 500;

pub(super) struct Observed<'a> {
    pub set: Arc<StatefulSet>,
    /// The template that pods had before the present rollout.
    pub current: Arc<ControllerRevision>,
    /// The template that the set has now.
    pub update: Arc<ControllerRevision>,
    /// Its own, each with a name of the set.
    pub pods: Vec<Arc<PodView>>,
    pub claim: Lookup<'a>,
    /// Any pod of the namespace, by name: others may have a name that is ours to give.
    pub pod: &'a dyn Fn(&str) -> Option<Arc<PodView>>,
    /// The gate `MaxUnavailableStatefulSet`.
    pub allows_max_unavailable: bool,
    pub now: Timestamp,
}

/// What a pod is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Current,
    Update,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Then {
    Nothing,
    Create(i64, From),
    Delete(Arc<PodView>),
    /// The labels of its identity are gone.
    Relabel(Arc<PodView>),
}

/// What is done for one ordinal: its claims, one after the other, and then its pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub pod: String,
    pub claims: Vec<claims::Write>,
    pub then: Then,
}

/// What has to happen before the set goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Termination(String),
    Readiness(String),
    Availability(String),
    /// The claim of a pod is being deleted.
    ClaimEnding {
        pod: String,
        claim: String,
    },
    /// The claim of a pod goes with an earlier one of that name.
    ClaimStale {
        pod: String,
        claim: String,
    },
    /// The name of a pod is taken.
    Taken {
        pod: String,
        by: String,
    },
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// For pods that are wanted, then for those that are not, then for those that are outdated.
    pub tasks: Vec<Task>,
    /// Whether tasks go side by side.
    pub is_parallel: bool,
    pub waits: Vec<Wait>,
    pub status: StatefulSetStatus,
    /// When a pod becomes available by the passing of time alone.
    pub next: Option<Duration>,
    pub unavailable: i64,
    pub max_unavailable: i32,
}

/// What the set says about itself.
pub(super) struct Terms {
    pub first: i64,
    /// One behind the last.
    pub end: i64,
    pub is_ordered: bool,
    pub is_on_delete: bool,
    /// Ordinals below stay at the current template.
    pub kept_below: i64,
    pub max_unavailable: i32,
    pub min_ready: Duration,
}

impl Terms {
    pub(super) fn of(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let replicas = spec.and_then(|it| it.replicas).unwrap_or(1).max(0);
        let ordinals = spec.and_then(|it| it.ordinals.as_ref());
        let first = i64::from(ordinals.and_then(|it| it.start).unwrap_or(0).max(0));
        let default = StatefulSetUpdateStrategy::default();
        let strategy = spec.and_then(|it| it.update_strategy.as_ref()).unwrap_or(&default);
        let rolling = strategy.rolling_update.as_ref();
        let partition = rolling.and_then(|it| it.partition).unwrap_or(0).max(0);
        let max_unavailable = rolling.and_then(|it| it.max_unavailable.as_ref());
        let max_unavailable = max_unavailable.unwrap_or(&IntOrString::Int(1));
        let seconds = spec.and_then(|it| it.min_ready_seconds).unwrap_or(0);
        Self {
            first,
            end: first + i64::from(replicas),
            is_ordered: spec.and_then(|it| it.pod_management_policy.as_deref()) != Some("Parallel"),
            is_on_delete: strategy.type_.as_deref() == Some("OnDelete"),
            kept_below: first + i64::from(partition),
            max_unavailable: resolve(max_unavailable, replicas, Round::Down).max(1),
            min_ready: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        }
    }

    pub(super) fn wants(&self, ordinal: i64) -> bool {
        (self.first..self.end).contains(&ordinal)
    }
}

/// The work of one look.
struct Planner<'a> {
    observed: &'a Observed<'a>,
    terms: Terms,
    wanted: BTreeMap<i64, Arc<PodView>>,
    /// Highest first.
    condemned: Vec<(i64, Arc<PodView>)>,
    plan: Plan,
}

/// Whether the look goes on to the next step.
#[derive(PartialEq)]
enum Flow {
    On,
    Stop,
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let set = &*observed.set;
    let terms = Terms::of(set);
    let name = owners::name(&set.metadata);
    let numbered = observed.pods.iter().filter_map(|it| {
        let ordinal = identity::ordinal(name, &it.meta.key.name)?;
        Some((ordinal, it.clone()))
    });
    let (wanted, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
        numbered.partition(|(ordinal, _)| terms.wants(*ordinal));
    let condemned = rest.into_iter().rev().collect();
    let mut planner = Planner { observed, terms, wanted, condemned, plan: Plan::default() };
    planner.plan.is_parallel = !planner.terms.is_ordered;
    planner.plan.max_unavailable = planner.terms.max_unavailable;
    planner.plan.unavailable = planner.unavailable();
    if !owners::is_deleting(&set.metadata) {
        planner.run();
    }
    let mut plan = planner.plan;
    plan.status = status::plan(observed, &plan);
    plan.next = status::next_available(observed);
    plan
}

impl Planner<'_> {
    fn run(&mut self) {
        if self.keep_wanted() == Flow::Stop || self.remove_condemned() == Flow::Stop {
            return;
        }
        if self.terms.is_on_delete {
            return;
        }
        if self.observed.allows_max_unavailable { self.update_many() } else { self.update_one() }
    }

    fn available_in(&self, pod: &PodView) -> Option<Duration> {
        pods::available_in(pod, self.terms.min_ready, self.observed.now)
    }

    fn is_unavailable(&self, pod: &PodView) -> bool {
        pod.is_deleting() || self.available_in(pod) != Some(Duration::ZERO)
    }

    /// Among those that are wanted: missing ones are, too.
    fn unavailable(&self) -> i64 {
        let there = i64::try_from(self.wanted.len()).unwrap_or(i64::MAX);
        let unavailable = self.wanted.values().filter(|it| self.is_unavailable(it)).count();
        self.terms.end - self.terms.first - there + i64::try_from(unavailable).unwrap_or(0)
    }

    fn task(&mut self, pod: String, claims: Vec<claims::Write>, then: Then) {
        if !claims.is_empty() || then != Then::Nothing {
            self.plan.tasks.push(Task { pod, claims, then });
        }
    }

    /// In an ordered set nobody goes on before those below are well.
    fn wait(&mut self, wait: Wait) -> Flow {
        self.plan.waits.push(wait);
        if self.terms.is_ordered { Flow::Stop } else { Flow::On }
    }

    fn keep_wanted(&mut self) -> Flow {
        let mut created = 0;
        for ordinal in self.terms.first..self.terms.end {
            let flow = match self.wanted.get(&ordinal).cloned() {
                Some(pod) => self.keep(ordinal, &pod),
                None if created == BURST => return Flow::Stop,
                None => self.create(ordinal, &mut created),
            };
            if flow == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::On
    }

    fn create(&mut self, ordinal: i64, created: &mut usize) -> Flow {
        let pod = identity::pod_name(&self.observed.set, ordinal);
        let holder = Holder { set: &self.observed.set, ordinal, pod_uid: "", is_wanted: true };
        let claim = self.observed.claim;
        if let Some(other) = (self.observed.pod)(&pod) {
            return self.wait(Wait::Taken { by: owner_of(&other), pod });
        }
        if let Some(claim) = holder.stale(claim) {
            return self.wait(Wait::ClaimStale { pod, claim });
        }
        if let Some(claim) = holder.ending(claim) {
            return self.wait(Wait::ClaimEnding { pod, claim });
        }
        let mut claims = holder.missing(claim);
        claims.extend(holder.misowned(claim));
        self.task(pod, claims, Then::Create(ordinal, self.source(ordinal)));
        *created += 1;
        if self.terms.is_ordered { Flow::Stop } else { Flow::On }
    }

    fn source(&self, ordinal: i64) -> From {
        let set = &self.observed.set;
        let strategy = set.spec.as_ref().and_then(|it| it.update_strategy.as_ref());
        let kept_below = match strategy {
            Some(it) if it.rolling_update.is_some() => self.terms.kept_below,
            // Nobody says how far the rollout may go: those stay that have not been reached.
            Some(_) if !self.terms.is_on_delete => {
                let reached = set.status.as_ref().and_then(|it| it.current_replicas);
                self.terms.first + i64::from(reached.unwrap_or(0))
            }
            _ => return From::Update,
        };
        if ordinal < kept_below { From::Current } else { From::Update }
    }

    /// A pod that is there and should be.
    fn keep(&mut self, ordinal: i64, pod: &Arc<PodView>) -> Flow {
        let name = pod.meta.key.name.clone();
        if pod.is_terminal() {
            // Made again when it is gone, whatever it ended with.
            if !pod.is_deleting() {
                self.task(name, Vec::new(), Then::Delete(pod.clone()));
                return if self.terms.is_ordered { Flow::Stop } else { Flow::On };
            }
            return self.wait(Wait::Termination(name));
        }
        let set = self.observed.set.clone();
        let holder = Holder { set: &set, ordinal, pod_uid: pod.uid(), is_wanted: true };
        let mut claims = Vec::new();
        if matches!(pod.phase.as_str(), "" | "Pending") {
            claims.extend(holder.missing(self.observed.claim));
        }
        let blocked = self.blocked(pod);
        if blocked.is_none() || !claims.is_empty() || !self.terms.is_ordered {
            claims.extend(holder.misowned(self.observed.claim));
        }
        let is_known = pod.label(POD_NAME) == Some(&name);
        let then = match &blocked {
            Some(_) if self.terms.is_ordered => Then::Nothing,
            _ if is_known => Then::Nothing,
            _ => Then::Relabel(pod.clone()),
        };
        self.task(name, claims, then);
        blocked.map_or(Flow::On, |it| self.wait(it))
    }

    /// Why those above a pod have to wait.
    fn blocked(&self, pod: &PodView) -> Option<Wait> {
        let name = pod.meta.key.name.clone();
        if pod.is_deleting() {
            return Some(Wait::Termination(name));
        }
        if pod.phase.as_str() != "Running" || !pod.is_ready {
            return Some(Wait::Readiness(name));
        }
        (self.available_in(pod) != Some(Duration::ZERO)).then_some(Wait::Availability(name))
    }

    /// Pods that are not wanted any more go, from the highest: in an ordered set one after the
    /// other, and only while all others are well; one that is not well may go itself.
    fn remove_condemned(&mut self) -> Flow {
        let condemned = std::mem::take(&mut self.condemned);
        let set = self.observed.set.clone();
        let well_below = self.wanted.values().all(|it| self.blocked(it).is_none());
        let lowest_ill = condemned.iter().rev().find(|(_, it)| self.blocked(it).is_some());
        let lowest_ill = lowest_ill.filter(|_| well_below).map(|(ordinal, _)| *ordinal);
        // One that an update was about to replace goes first, though it is a lower one; upstream
        // lets both be away at once.
        let ending = condemned.iter().find(|(_, it)| it.is_deleting() && self.terms.is_ordered);
        let ending = ending.map(|(_, it)| Wait::Termination(it.meta.key.name.clone()));
        let mut deleted = 0;
        let mut flow = Flow::On;
        for (ordinal, pod) in &condemned {
            let name = pod.meta.key.name.clone();
            let holder =
                Holder { set: &set, ordinal: *ordinal, pod_uid: pod.uid(), is_wanted: false };
            let claims = holder.misowned(self.observed.claim);
            if flow == Flow::Stop || deleted == BURST {
                self.task(name, claims, Then::Nothing);
                continue;
            }
            // One that ended never gets well.
            let may_be_ill =
                !self.terms.is_ordered || lowest_ill == Some(*ordinal) || pod.is_terminal();
            let blocked =
                self.blocked(pod).filter(|it| matches!(it, Wait::Termination(_)) || !may_be_ill);
            let blocked = blocked.or_else(|| ending.clone());
            let Some(wait) = blocked else {
                self.task(name, claims, Then::Delete(pod.clone()));
                deleted += 1;
                flow = if self.terms.is_ordered { Flow::Stop } else { Flow::On };
                continue;
            };
            self.task(name, claims, Then::Nothing);
            flow = self.wait(wait);
        }
        if deleted > 0 && self.terms.is_ordered { Flow::Stop } else { flow }
    }

    fn is_outdated(&self, pod: &PodView) -> bool {
        pod.label(REVISION) != self.observed.update.metadata.name.as_deref()
    }

    fn replace(&mut self, pod: &Arc<PodView>) {
        self.task(pod.meta.key.name.clone(), Vec::new(), Then::Delete(pod.clone()));
    }

    /// From the highest: the next outdated pod goes when all above it are well.
    fn update_one(&mut self) {
        let wanted: Vec<_> = self.wanted.range(self.terms.kept_below..).rev().map(owned).collect();
        let mut next = self.terms.end - 1;
        for (ordinal, pod) in wanted {
            // One that is just being made, or cannot be.
            if ordinal != next {
                return;
            }
            if self.is_outdated(&pod) && !pod.is_deleting() {
                return self.replace(&pod);
            }
            if self.is_unavailable(&pod) {
                if let Some(wait) = self.blocked(&pod) {
                    self.wait(wait);
                }
                return;
            }
            next -= 1;
        }
    }

    /// The same for as many at once as may be unavailable.
    fn update_many(&mut self) {
        let room = i64::from(self.terms.max_unavailable) - self.plan.unavailable;
        let Ok(room) = usize::try_from(room) else { return };
        let wanted = self.wanted.range(self.terms.kept_below..).rev().map(owned);
        let outdated: Vec<_> = wanted
            .map(|(_, pod)| pod)
            .filter(|it| self.is_outdated(it) && !it.is_deleting())
            .take(room.min(BURST))
            .collect();
        outdated.iter().for_each(|it| self.replace(it));
    }
}

fn owned((ordinal, pod): (&i64, &Arc<PodView>)) -> (i64, Arc<PodView>) {
    (*ordinal, pod.clone())
}

fn owner_of(pod: &PodView) -> String {
    match pod.controller() {
        Some(owner) => format!("{} {}", owner.kind, owner.name),
        None => "nobody".to_owned(),
    }
}

/// What the set waits for, if that is why nothing is done: a reason and a sentence.
pub(super) fn explain(plan: &Plan) -> Option<Explanation> {
    if plan.tasks.iter().any(|it| it.then != Then::Nothing) {
        return None;
    }
    Some(match plan.waits.first()? {
        Wait::Termination(pod) => ("PodTerminating", format!("waiting for pod {pod} to terminate")),
        Wait::Readiness(pod) => {
            ("PodNotReady", format!("waiting for pod {pod} to be Running and Ready"))
        }
        Wait::Availability(pod) => {
            ("PodNotAvailable", format!("waiting for pod {pod} to be Available"))
        }
        Wait::ClaimEnding { pod, claim } => (
            "ClaimTerminating",
            format!("pod {pod} waits for claim {claim}, which is being deleted"),
        ),
        Wait::ClaimStale { pod, claim } => (
            "ClaimStale",
            format!("pod {pod} waits for claim {claim} of an earlier pod to be deleted"),
        ),
        Wait::Taken { pod, by } => {
            ("ConflictingController", format!("pod {pod} exists and belongs to {by}"))
        }
    })
}

/// The same where no event of upstream's says it.
pub(super) fn untold(plan: &Plan) -> Option<Explanation> {
    let is_told = |it: &Wait| matches!(it, Wait::Taken { .. } | Wait::ClaimEnding { .. });
    explain(plan).filter(|_| !plan.waits.first().is_some_and(is_told))
}
