//! A batch of the store as responses of bounded size. Pure.
//!
//! A response ends where a transaction ends. Only a transaction that is too large for one response is cut, and only for a client
//! that asked for fragments.

use kvstore::{Batch, Event, Revision};
use prost::Message as _;

use crate::front::kv::entry;
use crate::front::number;
use crate::wire::messages as pb;

pub(super) struct Part {
    pub(super) events: Vec<pb::Event>,
    /// Every event up to here has been sent with this part.
    pub(super) revision: Revision,
    pub(super) is_fragment: bool,
}

pub(super) struct Parts {
    events: std::iter::Peekable<std::vec::IntoIter<Event>>,
    last: Revision,
    bytes_max: usize,
    can_cut: bool,
}

impl Parts {
    pub(super) fn new(batch: Batch, bytes_max: usize, can_cut: bool) -> Self {
        let events = batch.events.into_iter().peekable();
        Self { events, last: batch.revision, bytes_max, can_cut }
    }

    pub(super) fn next_part(&mut self) -> Option<Part> {
        let mut revision = self.events.peek()?.revision;
        let mut events = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.events.peek() {
            let is_new_txn = next.revision != revision;
            let is_full = bytes + size(next) > self.bytes_max && !events.is_empty();
            if is_full && (is_new_txn || self.can_cut) {
                let is_fragment = !is_new_txn;
                return Some(Part { events, revision, is_fragment });
            }
            bytes += size(next);
            revision = next.revision;
            events.extend(self.events.next().map(render));
        }
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

fn render(event: Event) -> pb::Event {
    let revision = number(event.revision);
    let (kind, kv) = match event.value {
        Some(value) => (pb::EventType::Put, entry(value)),
        None => {
            let kv = pb::KeyValue { key: event.key, mod_revision: revision, ..Default::default() };
            (pb::EventType::Delete, kv)
        }
    };
    let event = pb::Event { kind: kind as i32, kv: Some(kv), prev_kv: event.previous.map(entry) };
    debug_assert!(event.encoded_len() > 0, "an event has a key");
    event
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
        let mut parts = Parts::new(batch, 70, can_cut);
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
