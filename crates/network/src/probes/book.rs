//! Who is tried when. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use stdx::{Backoff, Cidr};
use tokio::time::Instant;

use super::{Target, Verdict};

/// At the same time.
const AT_ONCE: usize = 16;
/// What is good is looked at again.
const GOOD_AGAIN: Duration = Duration::from_secs(600);
/// What is not is looked at soon, and then more seldom: the other side may be starting.
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Who is silent so often is said to be.
const SILENT_MAX: u32 = 5;

#[derive(Clone, Debug)]
struct Entry {
    target: Target,
    /// As it is told.
    verdict: Option<Verdict>,
    n_silent: u32,
    backoff: Backoff,
    /// `None`: it is being tried.
    due: Option<Instant>,
    /// It has changed while it was being tried.
    is_stale: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    entries: BTreeMap<Cidr, Entry>,
}

impl Entry {
    fn new(target: Target, now: Instant) -> Self {
        let backoff = Backoff::new(AGAIN_FIRST, AGAIN_MAX);
        Self { target, verdict: None, n_silent: 0, backoff, due: Some(now), is_stale: false }
    }
}

impl Book {
    /// Who is new, or other than before, is tried now. What was known of it holds until then.
    pub(super) fn want(&mut self, targets: &[Target], now: Instant) {
        let wanted: BTreeMap<_, _> = targets.iter().map(|it| (it.range, it)).collect();
        self.entries.retain(|range, entry| {
            wanted.get(range).is_some_and(|it| it.node == entry.target.node)
        });
        for (range, target) in wanted {
            match self.entries.get_mut(&range) {
                None => {
                    self.entries.insert(range, Entry::new(target.clone(), now));
                }
                Some(entry) if entry.target != *target => {
                    let (verdict, is_running) = (entry.verdict.take(), entry.due.is_none());
                    *entry = Entry { verdict, ..Entry::new(target.clone(), now) };
                    if is_running {
                        (entry.due, entry.is_stale) = (None, true);
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Who is to be tried now; they are being tried from now on.
    pub(super) fn begin(&mut self, now: Instant) -> Vec<Target> {
        let n_running = self.entries.values().filter(|it| it.due.is_none()).count();
        let is_due = |it: &&mut Entry| it.due.is_some_and(|it| it <= now);
        let mut due: Vec<_> = self.entries.values_mut().filter(is_due).collect();
        due.sort_by_key(|it| it.due);
        due.truncate(AT_ONCE.saturating_sub(n_running));
        due.into_iter()
            .map(|it| {
                it.due = None;
                it.target.clone()
            })
            .collect()
    }

    /// When the next is to be tried, unless as many as may be are being tried.
    pub(super) fn due(&self) -> Option<Instant> {
        let n_running = self.entries.values().filter(|it| it.due.is_none()).count();
        if n_running >= AT_ONCE {
            None
        } else {
            self.entries.values().filter_map(|it| it.due).min()
        }
    }

    /// What came of trying it. Who is silent is believed to be so after a while alone.
    pub(super) fn note(&mut self, range: Cidr, verdict: Verdict, now: Instant) {
        let Some(entry) = self.entries.get_mut(&range).filter(|it| it.due.is_none()) else {
            return;
        };
        if std::mem::take(&mut entry.is_stale) {
            entry.due = Some(now);
            return;
        }
        let is_good = matches!(verdict, Verdict::Reached { fits: None, .. });
        if matches!(verdict, Verdict::Reached { .. }) {
            entry.n_silent = 0;
        } else {
            entry.n_silent = entry.n_silent.saturating_add(1);
        }
        if is_good {
            entry.backoff.reset();
        }
        entry.due = Some(now + if is_good { GOOD_AGAIN } else { entry.backoff.step() });
        if entry.n_silent == 0 || entry.n_silent >= SILENT_MAX {
            entry.verdict = Some(verdict);
        }
    }

    /// It could not be tried: what is known of it holds.
    pub(super) fn put_off(&mut self, range: Cidr, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&range) {
            entry.due = Some(now + if entry.is_stale { AGAIN_FIRST } else { entry.backoff.step() });
            entry.is_stale = false;
        }
    }

    /// What is known, of each that was tried.
    pub(super) fn known(&self) -> impl Iterator<Item = (&Target, &Verdict)> {
        self.entries.values().filter_map(|it| Some((&it.target, it.verdict.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::Checksums;
    use crate::probes::told::tests::target;

    const GOOD: Verdict = Verdict::Reached { fits: None, checksums: Checksums::Fine };
    const SILENT: Verdict = Verdict::Silent { machine_answers: true, source: None };

    fn begun(book: &mut Book, now: Instant) -> Vec<String> {
        book.begin(now).into_iter().map(|it| it.node).collect()
    }

    #[test]
    fn who_is_new_or_changed_is_tried_now_and_who_is_good_seldom() {
        let (mut book, mut now) = (Book::default(), Instant::now());
        book.want(&[target("b", 2), target("c", 3)], now);
        assert_eq!(begun(&mut book, now), ["b", "c"]);
        assert_eq!(begun(&mut book, now), [""; 0]);
        for n in [2, 3] {
            book.note(target("", n).range, GOOD, now);
        }
        assert_eq!((begun(&mut book, now).len(), book.due()), (0, Some(now + GOOD_AGAIN)));
        now += Duration::from_secs(5);
        let changed = Target { mtu: 1400, ..target("b", 2) };
        book.want(&[changed, target("c", 3)], now);
        assert_eq!(begun(&mut book, now), ["b"]);
        // What is known of it holds until it is known anew.
        assert_eq!(book.known().count(), 2);
        book.want(&[], now);
        assert_eq!((book.known().count(), book.due()), (0, None));
    }

    #[test]
    fn who_changes_while_it_is_tried_is_tried_again() {
        let (mut book, now) = (Book::default(), Instant::now());
        book.want(&[target("b", 2)], now);
        assert_eq!(begun(&mut book, now), ["b"]);
        book.want(&[Target { mtu: 1400, ..target("b", 2) }], now);
        assert_eq!(begun(&mut book, now), [""; 0]);
        book.note(target("", 2).range, GOOD, now);
        assert_eq!(book.known().count(), 0);
        assert_eq!(begun(&mut book, now), ["b"]);
    }

    #[test]
    fn few_are_tried_at_once() {
        let (mut book, now) = (Book::default(), Instant::now());
        let targets: Vec<_> = (2..100).map(|n| target(&n.to_string(), n)).collect();
        book.want(&targets, now);
        assert_eq!((begun(&mut book, now).len(), book.due()), (AT_ONCE, None));
        book.note(targets[0].range, GOOD, now);
        assert_eq!(book.due(), Some(now));
        assert_eq!(begun(&mut book, now).len(), 1);
    }

    #[test]
    fn silence_is_believed_after_a_while_and_not_asked_about_for_ever() {
        let (mut book, mut now) = (Book::default(), Instant::now());
        book.want(&[target("b", 2)], now);
        for n in 1..20 {
            assert_eq!(begun(&mut book, now), ["b"]);
            book.note(target("", 2).range, SILENT, now);
            assert_eq!(book.known().count(), usize::from(n >= SILENT_MAX), "{n}");
            now = book.due().unwrap();
        }
        assert_eq!(begun(&mut book, now), ["b"]);
        book.note(target("", 2).range, SILENT, now);
        assert_eq!(book.due(), Some(now + AGAIN_MAX));
        assert_eq!(begun(&mut book, now + AGAIN_MAX), ["b"]);
        book.note(target("", 2).range, GOOD, now);
        assert_eq!(book.known().map(|it| it.1.clone()).collect::<Vec<_>>(), [GOOD]);
    }
}
