//! How long a pod that failed is left alone, per node: a second, twice as long each time. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::pods;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(15);
/// After so long without a failure it begins anew.
const FORGOTTEN: Duration = Duration::from_mins(30);

/// Of one DaemonSet, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff(BTreeMap<String, Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    delay: Duration,
    since: Timestamp,
    /// Of the set, as it was observed: another template begins anew.
    generation: i64,
}

impl Entry {
    fn is_over(&self, generation: i64, now: Timestamp) -> bool {
        self.generation != generation || pods::remaining(self.since, FORGOTTEN, now).is_zero()
    }
}

impl Backoff {
    /// How much longer a failed pod of the node stays; zero: it may go.
    pub(super) fn remaining(&self, node: &str, generation: i64, now: Timestamp) -> Duration {
        let entry = self.0.get(node).filter(|it| !it.is_over(generation, now));
        entry.map_or(Duration::ZERO, |it| pods::remaining(it.since, it.delay, now))
    }

    /// A failed pod of the node goes now.
    pub(super) fn step(&mut self, node: &str, generation: i64, now: Timestamp) {
        let entry = self.0.get(node).filter(|it| !it.is_over(generation, now));
        let delay = entry.map_or(FIRST, |it| (it.delay * 2).min(LONGEST));
        self.0.insert(node.to_owned(), Entry { delay, since: now, generation });
    }

    /// Forgets what does not count any more.
    pub(super) fn prune(&mut self, generation: i64, now: Timestamp) {
        self.0.retain(|_, it| !it.is_over(generation, now));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
