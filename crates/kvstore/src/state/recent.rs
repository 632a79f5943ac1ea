//! The last commits, for the values that they wrote: first in, first out, up to a number of bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Commit;
use crate::{Event, KeyValue, Revision};

pub(crate) struct Recent {
    /// By revision.
    commits: VecDeque<(Revision, Arc<Commit>)>,
    bytes: usize,
    bytes_max: usize,
}

impl Recent {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { commits: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub(crate) fn push(&mut self, commit: Arc<Commit>) {
        self.bytes += commit.bytes();
        self.commits.push_back((commit.revision, commit));
    }

    /// Drops the oldest beyond the budget, but none from `keep` on.
    pub(crate) fn trim(&mut self, keep: Option<Revision>) {
        while self.bytes > self.bytes_max
            && let Some((_, commit)) =
                self.commits.pop_front_if(|it| keep.is_none_or(|keep| it.0 < keep))
        {
            self.bytes -= commit.bytes();
        }
    }

    /// What the key became at that revision.
    pub(crate) fn find(&self, key: &[u8], revision: Revision) -> Option<&KeyValue> {
        let (_, commit) = self.commits.get(self.position(revision)?)?;
        let mut events = commit.events.iter();
        events.find(|it| it.key == key).and_then(|it| it.value.as_ref())
    }

    fn position(&self, revision: Revision) -> Option<usize> {
        let (first, _) = self.commits.front()?;
        let distance = usize::try_from(revision.0.checked_sub(first.0)?).ok()?;
        // As a rule no revision is left out.
        if self.commits.get(distance).is_some_and(|it| it.0 == revision) {
            return Some(distance);
        }
        self.commits.binary_search_by_key(&revision, |it| it.0).ok()
    }

    /// Of the commits up to `through`, only the events that `is_needed` stay, without what was
    /// before them.
    pub(crate) fn forget(&mut self, through: Revision, is_needed: impl Fn(&Event) -> bool) {
        for (revision, commit) in &mut self.commits {
            if *revision > through {
                break;
            }
            let needed = commit.events.iter().filter(|it| is_needed(it));
            let events: Vec<Event> =
                needed.map(|it| Event { previous: None, ..it.clone() }).collect();
            let (leases, lacks_previous) = (Vec::new(), true);
            *commit = Arc::new(Commit { revision: *revision, events, leases, lacks_previous });
        }
        self.commits.retain(|(_, it)| !it.events.is_empty());
        self.bytes = self.commits.iter().map(|(_, it)| it.bytes()).sum();
    }
}
