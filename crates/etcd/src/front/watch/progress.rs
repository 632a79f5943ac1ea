//! One answer to "how far is this stream": the least of what all its watches have been brought up to. Pure.

use std::collections::BTreeSet;

use kvstore::Revision;

pub(super) struct Round {
    /// Where the store was when it was asked. A watch has answered when it is as far.
    asked_at: Revision,
    /// Watches that have not answered.
    waiting: BTreeSet<i64>,
    least: Option<Revision>,
}

impl Round {
    pub(super) fn new(watches: impl Iterator<Item = i64>, asked_at: Revision) -> Self {
        Self { asked_at, waiting: watches.collect(), least: None }
    }

    pub(super) fn answer(&mut self, id: i64, revision: Revision) {
        if revision >= self.asked_at && self.waiting.remove(&id) {
            self.least = Some(self.least.map_or(revision, |it| it.min(revision)));
        }
    }

    /// Watches that are gone need not answer.
    pub(super) fn keep(&mut self, is_live: impl Fn(i64) -> bool) {
        self.waiting.retain(|id| is_live(*id));
    }

    /// The revision, once every watch has answered.
    pub(super) fn outcome(&self) -> Option<Revision> {
        self.waiting.is_empty().then_some(self.least.unwrap_or(self.asked_at))
    }
}

#[cfg(test)]
mod tests {
    use kvstore::Revision;

    use super::Round;

    #[test]
    fn a_round_ends_when_the_last_watch_has_caught_up() {
        let mut round = Round::new([1, 2].into_iter(), Revision(10));
        round.answer(1, Revision(12));
        round.answer(2, Revision(9));
        assert_eq!(round.outcome(), None);
        round.answer(2, Revision(11));
        assert_eq!(round.outcome(), Some(Revision(11)));
    }

    #[test]
    fn a_watch_that_went_holds_up_nobody() {
        let mut round = Round::new([1, 2].into_iter(), Revision(10));
        round.answer(1, Revision(10));
        round.keep(|id| id == 1);
        assert_eq!(round.outcome(), Some(Revision(10)));
    }
}
