//! Answers of other servers, kept for their time to live. Bounded; pure but for the time that is
//! passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use crate::wire;

/// As CoreDNS is usually configured.
const TTL_MAX: Duration = Duration::from_secs(30);
const ENTRIES_MAX: usize = 10_000;
/// Of questions and answers together.
const BYTES_MAX: usize = 8 << 20;

/// What was asked: [`wire::subject`]. An answer is kept under its question alone: what else is in
/// it says nothing about other names.
pub(crate) type Question = Bytes;

#[derive(Default)]
pub(crate) struct Cache {
    entries: BTreeMap<Question, Entry>,
    /// The same entries, by the time they end.
    ends: BTreeMap<(Instant, Question), ()>,
    n_bytes: usize,
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
        let n_bytes = question.len() + packet.len();
        while self.entries.len() >= ENTRIES_MAX || self.n_bytes + n_bytes > BYTES_MAX {
            let Some((_, oldest)) = self.ends.keys().next().cloned() else { break };
            self.remove(&oldest);
        }
        self.n_bytes += n_bytes;
        let ends = now + ttl;
        self.ends.insert((ends, question.clone()), ());
        self.entries.insert(question, Entry { packet, stored: now, ends, ttls });
    }

    fn remove(&mut self, question: &Question) {
        if let Some(entry) = self.entries.remove(question) {
            self.ends.remove(&(entry.ends, question.clone()));
            self.n_bytes -= question.len() + entry.packet.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::Instant;

    use super::{BYTES_MAX, Cache};

    #[test]
    fn large_answers_push_out_others() {
        let mut cache = Cache::default();
        // No question, one answer: the root, an address, 60 s, and much else.
        let mut packet = vec![0, 0, 0x81, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        packet.extend([0, 0, 16, 0, 1, 0, 0, 0, 60, 0xea, 0x60]);
        packet.extend(vec![0; 60_000]);
        let (packet, now) = (Bytes::from(packet), Instant::now());
        for number in 0..1_000_u32 {
            cache.insert(Bytes::copy_from_slice(&number.to_be_bytes()), packet.clone(), now);
        }
        assert!(cache.n_bytes <= BYTES_MAX, "{}", cache.n_bytes);
        assert_eq!(cache.entries.len(), cache.ends.len());
        assert!(cache.entries.len() > 100, "{}", cache.entries.len());
        let last = Bytes::copy_from_slice(&999_u32.to_be_bytes());
        assert!(cache.get(&last, 1, now).is_some());
    }
}
