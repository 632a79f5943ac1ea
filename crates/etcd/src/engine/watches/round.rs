//! One answer to "how far are these watches": the least of what all of them have been brought up
//! to. Pure.

use std::collections::BTreeSet;

use kvstore::{Revision, WatchId};

pub(super) struct Round {
    /// Where the store was when it was asked. A watch has answered when it is as far.
    asked_at: Revision,
    /// Watches that have not answered.
    waiting: BTreeSet<WatchId>,
    least: Option<Revision>,
}

impl Round {
    pub(super) fn new(watches: impl Iterator<Item = WatchId>, asked_at: Revision) -> Self {
        Self { asked_at, waiting: watches.collect(), least: None }
    }

    pub(super) fn answer(&mut self, id: WatchId, revision: Revision) {
        if revision >= self.asked_at && self.waiting.remove(&id) {
            self.least = Some(self.least.map_or(revision, |it| it.min(revision)));
        }
    }

    /// A watch that came later answers too: it may be far behind.
    pub(super) fn include(&mut self, id: WatchId) {
        self.waiting.insert(id);
    }

    /// Watches that are gone need not answer.
    pub(super) fn leave(&mut self, id: WatchId) {
        self.waiting.remove(&id);
    }

    /// The revision, once every watch has answered.
    pub(super) fn outcome(&self) -> Option<Revision> {
        self.waiting.is_empty().then_some(self.least.unwrap_or(self.asked_at))
    }
}

#[cfg(test)]
mod tests {
    use kvstore::{Revision, WatchId};

    use super::Round;

    fn round() -> Round {
        Round::new([WatchId(1), WatchId(2)].into_iter(), Revision(10))
    }

    #[test]
    fn a_round_ends_when_the_last_watch_has_caught_up() {
        let mut round = round();
        round.answer(WatchId(1), Revision(12));
        round.answer(WatchId(2), Revision(9));
        assert_eq!(round.outcome(), None);
        round.answer(WatchId(2), Revision(11));
        assert_eq!(round.outcome(), Some(Revision(11)));
    }

    #[test]
    fn a_watch_that_went_holds_up_nobody() {
        let mut round = round();
        round.answer(WatchId(1), Revision(10));
        round.leave(WatchId(2));
        assert_eq!(round.outcome(), Some(Revision(10)));
    }

    #[test]
    fn a_watch_that_came_is_waited_for() {
        let mut round = round();
        round.include(WatchId(3));
        round.answer(WatchId(1), Revision(10));
        round.answer(WatchId(2), Revision(10));
        assert_eq!(round.outcome(), None);
        round.answer(WatchId(3), Revision(10));
        assert_eq!(round.outcome(), Some(Revision(10)));
    }
}
