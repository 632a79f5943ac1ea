//! Answers of other servers, kept for their time to live. Bounded; pure but for the time that is passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use crate::wire;

/// As CoreDNS is usually configured.
const TTL_MAX: Duration = Duration::from_secs(30);
const ENTRIES_MAX: usize = 10_000;

/// What was asked, in lower case, as it stands in the packet.
pub(crate) type Question = Bytes;

#[derive(Default)]
pub(crate) struct Cache {
    entries: BTreeMap<Question, Entry>,
    /// The same entries, by the time they end.
    ends: BTreeMap<(Instant, Question), ()>,
}

struct Entry {
    packet: Bytes,
    stored: Instant,
    ends: Instant,
    ttls: Vec<usize>,
}

impl Cache {
    /// The answer, with its TTLs as old as it is.
    pub(crate) fn get(&self, question: &Question, id: u16, now: Instant) -> Option<Bytes> {
        let entry = self.entries.get(question).filter(|it| it.ends > now)?;
        let age = now.duration_since(entry.stored).as_secs() as u32;
        let mut packet = BytesMut::from(&entry.packet[..]);
        wire::set_id(&mut packet, id);
        for offset in &entry.ttls {
            let ttl = wire::read_u32(&packet, *offset)?.saturating_sub(age);
            packet[*offset..offset + 4].copy_from_slice(&ttl.to_be_bytes());
        }
        Some(packet.freeze())
    }

    /// Keeps an answer that may be kept: whole, understood, not a failure.
    pub(crate) fn insert(&mut self, question: Question, packet: Bytes, now: Instant) {
        let Some(ttls) = wire::ttl_offsets(&packet) else { return };
        let least = ttls.iter().filter_map(|it| wire::read_u32(&packet, *it)).min().unwrap_or(0);
        let ttl = Duration::from_secs(u64::from(least)).min(TTL_MAX);
        if ttl.is_zero() {
            return;
        }
        self.remove(&question);
        while self.entries.len() >= ENTRIES_MAX {
            let Some(((_, oldest), ())) = self.ends.pop_first() else { break };
            self.entries.remove(&oldest);
        }
        let ends = now + ttl;
        self.ends.insert((ends, question.clone()), ());
        self.entries.insert(question, Entry { packet, stored: now, ends, ttls });
    }

    fn remove(&mut self, question: &Question) {
        if let Some(entry) = self.entries.remove(question) {
            self.ends.remove(&(entry.ends, question.clone()));
        }
    }
}
