//! A batch of the store as responses of bounded size. Pure.
//!
//! A response ends where a transaction ends. Only a transaction that is too large for one response
//! is cut, and only for a client that asked for fragments.

use kvstore::{Batch, Event, Revision};

pub(super) struct Part<'a> {
    pub(super) events: &'a [Event],
    /// Every event up to here has been sent with this part.
    pub(super) revision: Revision,
    pub(super) is_fragment: bool,
}

pub(super) struct Parts<'a> {
    rest: &'a [Event],
    last: Revision,
    bytes_max: usize,
    can_cut: bool,
}

impl<'a> Parts<'a> {
    pub(super) fn new(batch: &'a Batch, bytes_max: usize, can_cut: bool) -> Self {
        Self { rest: &batch.events, last: batch.revision, bytes_max, can_cut }
    }

    pub(super) fn next_part(&mut self) -> Option<Part<'a>> {
        let mut revision = self.rest.first()?.revision;
        let mut bytes = 0;
        for (n_events, next) in self.rest.iter().enumerate() {
            let is_new_txn = next.revision != revision;
            let is_full = bytes + size(next) > self.bytes_max && n_events > 0;
            if is_full && (is_new_txn || self.can_cut) {
                let (events, rest) = self.rest.split_at(n_events);
                self.rest = rest;
                return Some(Part { events, revision, is_fragment: !is_new_txn });
            }
            bytes += size(next);
            revision = next.revision;
        }
        let events = std::mem::take(&mut self.rest);
        Some(Part { events, revision: self.last.max(revision), is_fragment: false })
    }
}

/// About what it takes on the wire.
fn size(event: &Event) -> usize {
    let entry = |it: &kvstore::KeyValue| it.key.len() + it.value.len() + 32;
    event.key.len()
        + 32
        + event.value.as_ref().map_or(0, entry)
        + event.previous.as_ref().map_or(0, entry)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kvstore::{Batch, Event, Revision};

    use super::Parts;

    /// Events as their revisions, parts as `events@revision`, `~` for one that is continued.
    fn check(events: &[u64], revision: u64, can_cut: bool, expected: &str) {
        let events = events.iter().map(|it| Event {
            key: Bytes::from_static(b"k"),
            value: None,
            previous: None,
            revision: Revision(*it),
        });
        let batch = Batch { events: events.collect(), revision: Revision(revision) };
        // Room for two.
        let mut parts = Parts::new(&batch, 70, can_cut);
        let mut seen = Vec::new();
        while let Some(part) = parts.next_part() {
            let mark = if part.is_fragment { "~" } else { "" };
            seen.push(format!("{}@{}{mark}", part.events.len(), part.revision.0));
        }
        assert_eq!(seen.join(" "), expected);
    }

    #[test]
    fn responses_end_where_transactions_end() {
        check(&[2], 2, false, "1@2");
        check(&[2, 3, 4, 5, 6], 9, false, "2@3 2@5 1@9");
        check(&[2, 2, 2, 3], 3, false, "3@2 1@3");
        check(&[], 7, false, "");
    }

    #[test]
    fn a_large_transaction_is_cut_for_clients_that_ask() {
        check(&[2, 2, 2, 3], 3, true, "2@2~ 2@3");
        check(&[2, 2, 2, 2], 2, true, "2@2~ 2@2");
    }
}
