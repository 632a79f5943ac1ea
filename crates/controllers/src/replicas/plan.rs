//! Which pods belong to an owner of replicas, how many to create, which to delete. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::Identified as _;
use api::core::pod::PodView;
use apimachinery::selector::Labels;
use jiff::Timestamp;

use crate::claims::Claimant;

/// Pods created or deleted by one reconcile, at most; the next one goes on.
pub(crate) const BURST: usize = 500;

pub(crate) struct Observed<'a> {
    pub owner_uid: String,
    pub is_deleting: bool,
    pub replicas: i32,
    pub selector: Labels,
    /// The pods that the owner controls, and the pods of its namespace that nobody controls.
    pub candidates: Vec<Arc<PodView>>,
    /// Pods per node of all owners that belong together (ReplicaSets of one Deployment). Counted
    /// only when it matters.
    pub related_per_node: Box<dyn Fn() -> BTreeMap<String, usize> + Send + 'a>,
    /// Whether the cache shows everything that was created and deleted before.
    pub is_cache_current: bool,
    pub now: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub adopt: Vec<Arc<PodView>>,
    pub release: Vec<Arc<PodView>>,
    /// Active pods of the owner, with those that are adopted.
    pub active: Vec<Arc<PodView>>,
    pub terminating: usize,
    pub create: usize,
    pub delete: Vec<Arc<PodView>>,
}

pub(crate) fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = claim(observed);
    if observed.is_deleting || !observed.is_cache_current {
        return plan;
    }
    let wanted = usize::try_from(observed.replicas).unwrap_or(0);
    let have = plan.active.len();
    if have < wanted {
        plan.create = (wanted - have).min(BURST);
    } else if have > wanted {
        let mut ranked = plan.active.clone();
        let ranking = Ranking::new(&ranked, (observed.related_per_node)(), observed.now);
        ranked.sort_by_cached_key(|it| ranking.rank(it));
        ranked.truncate((have - wanted).min(BURST));
        plan.delete = ranked;
    }
    plan
}

fn claim(observed: &Observed<'_>) -> Plan {
    let claimant = Claimant {
        uid: &observed.owner_uid,
        selector: &observed.selector,
        is_deleting: observed.is_deleting,
    };
    // Pods that are over are left where they are: nobody gains from moving them.
    let claims = claimant.claim(observed.candidates.iter().filter(|it| it.is_active()));
    let is_terminating = |pod: &&Arc<PodView>| {
        pod.controller().is_some_and(|it| it.uid == observed.owner_uid)
            && pod.is_deleting()
            && !pod.is_terminal()
            && claimant.matches(&***pod)
    };
    let terminating = observed.candidates.iter().filter(is_terminating).count();
    let mut active = claims.owned;
    active.extend_from_slice(&claims.adopt);
    let (adopt, release) = (claims.adopt, claims.release);
    Plan { adopt, release, active, terminating, ..Plan::default() }
}

/// Sorts pods by who goes first when there are too many: what does the least work, then what was
/// placed or became ready last. Times count by their order of magnitude, so that not always the
/// youngest go: the choice within one order is as good as random (the uid), which spreads the loss
/// over rollouts and zones. Pods of one second stay together there, under the least of their uids,
/// and what follows decides between them.
type Rank = (bool, u8, bool, i32, Reverse<usize>, Moment, Reverse<i32>, Moment, String);

/// An order of magnitude, whose second it is, and the second.
type Moment = (i64, String, Option<i64>);

struct Ranking {
    related_per_node: BTreeMap<String, usize>,
    /// The least uid of those that became ready in a second, and of those that were made in one.
    ready: BTreeMap<i64, String>,
    created: BTreeMap<i64, String>,
    now: Timestamp,
}

impl Ranking {
    fn new(
        pods: &[Arc<PodView>],
        related_per_node: BTreeMap<String, usize>,
        now: Timestamp,
    ) -> Self {
        let least = |time: fn(&PodView) -> Option<Timestamp>| {
            let mut least: BTreeMap<i64, String> = BTreeMap::new();
            for pod in pods {
                let Some(time) = time(pod) else { continue };
                let uid = least.entry(time.as_second()).or_insert_with(|| pod.uid().to_owned());
                if pod.uid() < uid.as_str() {
                    pod.uid().clone_into(uid);
                }
            }
            least
        };
        let (ready, created) = (least(|it| it.ready_since), least(|it| it.created));
        Self { related_per_node, ready, created, now }
    }

    fn rank(&self, pod: &PodView) -> Rank {
        let node = pod.node();
        let related = node.and_then(|it| self.related_per_node.get(it)).copied().unwrap_or(0);
        let moment = |time: Option<Timestamp>, least: &BTreeMap<i64, String>| -> Moment {
            let second = time.map(Timestamp::as_second);
            let least = second.and_then(|it| least.get(&it)).cloned().unwrap_or_default();
            (magnitude(time, self.now), least, second)
        };
        let ready = pod.ready_since.filter(|_| pod.is_ready);
        (
            node.is_some(),
            phase_rank(pod),
            pod.is_ready,
            pod.deletion_cost,
            Reverse(related),
            if pod.is_ready { moment(ready, &self.ready) } else { Moment::default() },
            Reverse(pod.restarts),
            moment(pod.created, &self.created),
            pod.uid().to_owned(),
        )
    }
}

/// The logarithm of an age; what has none is the youngest of all.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> i64 {
    let Some(since) = since else {
        return i64::MIN;
    };
    match u128::try_from(now.duration_since(since).as_nanos()) {
        Ok(age) if age > 0 => i64::from(age.ilog2()),
        _ => -1,
    }
}

fn phase_rank(pod: &PodView) -> u8 {
    match pod.phase.as_str() {
        "" | "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}
