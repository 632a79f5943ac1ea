//! One history, what the reference says to it, and the stores that must say the same.

use super::tried::Tried;
use super::{Tally, step};
use crate::reference::Reference;
use crate::{
    Error, Event, KeyRange, RangeRequest, RangeResponse, Revision, Txn, TxnResponse, Watch,
    WatchRequest,
};

/// A history with all that can be asked of it as long as nothing is compacted.
pub(super) struct History {
    steps: Vec<u32>,
    txns: Vec<(Txn, TxnResponse)>,
    /// Before each step, and at the end.
    revisions: Vec<Revision>,
    views: Vec<View>,
    events: Vec<Event>,
}

/// What is seen of some of the keys.
struct View {
    range: KeyRange,
    /// From revision 1 on.
    states: Vec<RangeResponse>,
    events: Vec<Event>,
}

/// Before the step `before`, history through a revision is forgotten.
#[derive(Clone, Copy, Debug)]
struct Compaction {
    before: usize,
    through: Revision,
}

impl History {
    pub(super) fn new(steps: &[u32]) -> Self {
        let mut model = Reference::default();
        let (mut txns, mut revisions) = (Vec::new(), vec![model.revision()]);
        for n in steps {
            let txn = step(*n);
            let response = model.txn(&txn).expect("the steps are right");
            txns.push((txn, response));
            revisions.push(model.revision());
        }
        let from_b = KeyRange { start: "b".into(), end: KeyRange::prefix(b"").end };
        let ranges = [KeyRange::prefix(b""), KeyRange::one(b"a"), from_b];
        let views = ranges.into_iter().map(|it| View::new(&model, it)).collect();
        let events = model.events_after(Revision(1));
        Self { steps: steps.to_vec(), txns, revisions, views, events }
    }

    fn revision(&self) -> Revision {
        self.revisions[self.steps.len()]
    }

    /// Every store that this history needs. A panic names the history.
    pub(super) fn check<T: Tried>(&self, open: &impl Fn() -> T) -> Tally {
        let mut tally = Tally { histories: 1, ..Tally::default() };
        for compaction in self.compactions_between() {
            let named = format!("{:?} {compaction:?}", self.steps);
            let mut walk = Walk::new(open(), self, named);
            walk.steps(Some(compaction));
            walk.check(compaction.through);
            tally += walk.tally;
        }
        let mut walk = Walk::new(open(), self, format!("{:?}", self.steps));
        walk.steps(None);
        walk.check(Revision(1));
        let mut walk = walk.restart();
        for through in (1..=self.revision().0).map(Revision) {
            walk.compact(through);
            walk.check(through);
        }
        tally += walk.tally;
        tally
    }

    /// Before each step, every revision that there is: but the first one, which has nothing before
    /// it.
    fn compactions_between(&self) -> Vec<Compaction> {
        let mut compactions = Vec::new();
        for before in 0..self.steps.len() {
            let revisions = (2..=self.revisions[before].0).map(Revision);
            compactions.extend(revisions.map(|through| Compaction { before, through }));
        }
        compactions
    }
}

impl View {
    fn new(model: &Reference, range: KeyRange) -> Self {
        let at = |it| RangeRequest::latest(range.clone()).at(Revision(it));
        let state = |it| model.range(&at(it)).expect("nothing is compacted");
        let states = (1..=model.revision().0).map(state).collect();
        let mut events = model.events_after(Revision(1));
        events.retain(|it| range.contains(&it.key));
        Self { range, states, events }
    }
}

/// One store on its way through a history.
struct Walk<'a, T> {
    store: T,
    history: &'a History,
    name: String,
    /// Opened before anything happened, and read at the end.
    unread: Option<Box<dyn Watch>>,
    tally: Tally,
}

impl<'a, T: Tried> Walk<'a, T> {
    fn new(mut store: T, history: &'a History, name: String) -> Self {
        let request = WatchRequest::new(KeyRange::prefix(b""), None);
        let unread = Some(store.watch(request).expect("a watch from now on begins"));
        Self { store, history, name, unread, tally: Tally { stores: 1, ..Tally::default() } }
    }

    fn steps(&mut self, compaction: Option<Compaction>) {
        for (n, (txn, expected)) in self.history.txns.iter().enumerate() {
            if let Some(Compaction { through, .. }) = compaction.filter(|it| it.before == n) {
                self.compact(through);
            }
            let response = self.store.txn(txn.clone());
            let response = response.unwrap_or_else(|it| panic!("{}: {it}", self.name));
            assert_eq!(response, *expected, "{}: step {n}", self.name);
            self.tally.checks += 1;
        }
    }

    fn compact(&mut self, through: Revision) {
        let compacted = self.store.compact(through);
        compacted.unwrap_or_else(|it| panic!("{}: compacting {through:?}: {it}", self.name));
    }

    /// Watches end with their process.
    fn restart(self) -> Self {
        Self { store: self.store.restart(), unread: None, ..self }
    }

    /// Everything that can be asked of a store that has forgotten what was before `oldest`.
    fn check(&mut self, oldest: Revision) {
        self.check_unread(oldest);
        let history = self.history;
        for view in &history.views {
            for at in (0..=history.revision().0 + 1).map(Revision) {
                self.check_range(view, at, oldest);
                self.check_resume(view, at, oldest);
            }
        }
    }

    fn check_range(&mut self, view: &View, at: Revision, oldest: Revision) {
        let current = self.history.revision();
        let found = self.store.range(RangeRequest::latest(view.range.clone()).at(at));
        let is_right = match &found {
            Ok(found) => at >= oldest && at <= current && view.states.get(index(at)) == Some(found),
            Err(Error::Compacted { requested, oldest: told }) => {
                at < oldest && (*requested, *told) == (at, oldest)
            }
            Err(Error::Future { requested, current: told }) => {
                at > current && (*requested, *told) == (at, current)
            }
            Err(_) => false,
        };
        assert!(
            is_right,
            "{}: {:?} at {at:?}, oldest {oldest:?}: {found:?}",
            self.name, view.range
        );
        self.tally.checks += 1;
    }

    fn check_resume(&mut self, view: &View, after: Revision, oldest: Revision) {
        self.tally.checks += 1;
        let request = WatchRequest::new(view.range.clone(), Some(after));
        // Most checks need no name.
        let name =
            |it: &Self| format!("{}: {:?} after {after:?}, oldest {oldest:?}", it.name, view.range);
        let mut watch = match self.store.watch(request) {
            Ok(watch) => watch,
            Err(Error::Compacted { .. }) if after < oldest => return,
            Err(error) => panic!("{}: {error}", name(self)),
        };
        assert!(after >= oldest, "{}: a watch in what was compacted", name(self));
        let expected = view.events.iter().filter(|it| it.revision > after);
        let events = self.drain(&mut *watch);
        assert!(events.iter().eq(expected), "{}: {events:?}", name(self));
    }

    /// It has everything, or is told that it has not.
    fn check_unread(&mut self, oldest: Revision) {
        let Some(mut watch) = self.unread.take() else { return };
        self.tally.checks += 1;
        let first = self.history.events.first();
        if first.is_some_and(|it| it.revision <= oldest) {
            let ended = self.store.next(&mut *watch);
            assert!(matches!(ended, Err(Error::Compacted { .. })), "{}: {ended:?}", self.name);
            return;
        }
        let events = self.drain(&mut *watch);
        assert_eq!(events, self.history.events, "{}: the unread watch", self.name);
    }

    /// What a watch tells up to the end, sorted, since the order within a transaction is its
    /// engine's choice.
    fn drain(&mut self, watch: &mut dyn Watch) -> Vec<Event> {
        let mut events = Vec::new();
        while watch.progress() < self.history.revision() {
            let batch = self.store.next(watch);
            let batch = batch.unwrap_or_else(|it| panic!("{}: {it}", self.name));
            assert!(watch.progress() >= batch.revision, "progress includes what was delivered");
            events.extend(batch.events);
        }
        events.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
        events
    }
}

fn index(at: Revision) -> usize {
    usize::try_from(at.0).map_or(0, |it| it - 1)
}
