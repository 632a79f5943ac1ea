//! What must be known of packets that are passed on without being understood: their id, what they
//! ask, and where their TTLs are.

use bytes::{Bytes, BytesMut};

/// Questions and records that are looked at; a packet with more is passed on uncached.
const RECORDS_MAX: usize = 512;
const HEADER: usize = 12;
const TYPE_OPT: u16 = 41;

/// Where the TTL of each record begins; `None` when the packet makes no sense.
pub(crate) fn ttl_offsets(packet: &[u8]) -> Option<Vec<usize>> {
    let count = |at: usize| read_u16(packet, at).map(usize::from);
    let n_questions = count(4)?;
    let n_records = count(6)? + count(8)? + count(10)?;
    if n_questions + n_records > RECORDS_MAX {
        return None;
    }
    let mut at = HEADER;
    for _ in 0..n_questions {
        at = after_name(packet, at)? + 4;
    }
    let mut offsets = Vec::with_capacity(n_records);
    for _ in 0..n_records {
        at = after_name(packet, at)?;
        // The OPT pseudo-record has flags where others have their TTL.
        if read_u16(packet, at)? != TYPE_OPT {
            offsets.push(at + 4);
        }
        at = at + 10 + usize::from(read_u16(packet, at + 8)?);
    }
    (at <= packet.len()).then_some(offsets)
}

pub(crate) fn read_u32(packet: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(packet.get(at..at + 4)?.try_into().ok()?))
}

fn read_u16(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?))
}

/// A name ends with an empty label or with a pointer to the rest of it.
fn after_name(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *packet.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length if length & 0xc0 == 0 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// The name and the rest (type and class) of the only question. Names in questions have nothing to
/// point to.
fn question(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let has_one = read_u16(packet, 4)? == 1;
    let mut end = HEADER;
    loop {
        match *packet.get(end).filter(|_| has_one)? {
            0 => break,
            length if length & 0xc0 == 0 => end += 1 + usize::from(length),
            _ => return None,
        }
    }
    Some((packet.get(HEADER..=end)?, packet.get(end + 1..end + 5)?))
}

/// All of a query but its id and its spelling: queries that have this in common have the same
/// answer.
pub(crate) fn subject(query: &[u8]) -> Option<Bytes> {
    let (name, _) = question(query)?;
    let mut subject = BytesMut::from(query.get(2..)?);
    subject[HEADER - 2..HEADER - 2 + name.len()].make_ascii_lowercase();
    Some(subject.freeze())
}

/// Whether it is an answer, with the query's id, to the query's question. Whoever wants to forge
/// one must guess the id and the port; whoever could send one for another question could fill the
/// cache with it.
pub(crate) fn is_answer_to(answer: &[u8], query: &[u8]) -> bool {
    const OPCODE: u8 = 0x78;
    const RESPONSE: u8 = 0x80;
    let kinds = (answer.get(2), query.get(2));
    let (Some(answer_kind), Some(query_kind)) = kinds else { return false };
    let (Some(answered), Some(asked)) = (question(answer), question(query)) else { return false };
    answer.get(..2) == query.get(..2)
        && answer_kind & (RESPONSE | OPCODE) == RESPONSE | (query_kind & OPCODE)
        && answered.0.eq_ignore_ascii_case(asked.0)
        && answered.1 == asked.1
}

/// The answer without its records, marked as cut off: over TCP the client gets all of it.
pub(crate) fn cut(answer: &[u8]) -> Option<Bytes> {
    const TRUNCATED: u8 = 0x02;
    let (name, rest) = question(answer)?;
    let mut cut = BytesMut::from(answer.get(..HEADER + name.len() + rest.len())?);
    cut[2] |= TRUNCATED;
    cut[6..HEADER].fill(0);
    Some(cut.freeze())
}

pub(crate) fn id(packet: &[u8]) -> Option<u16> {
    read_u16(packet, 0)
}

pub(crate) fn set_id(packet: &mut [u8], id: u16) {
    if let Some(place) = packet.get_mut(..2) {
        place.copy_from_slice(&id.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simple_dns::rdata::{A, CNAME, RData};
    use simple_dns::{CLASS, Name, Packet, ResourceRecord};

    use super::{cut, is_answer_to, read_u32, subject, ttl_offsets};

    /// A packet with this id, flags, and name as its only question for addresses.
    fn packet(id: u8, flags: u8, name: &str, kind: u8) -> Vec<u8> {
        let mut bytes = vec![0, id, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.bytes());
        }
        bytes.extend([0, 0, kind, 0, 1]);
        bytes
    }

    #[test]
    fn an_answer_is_to_one_question() {
        let query = packet(7, 0x01, "Example.com", 0x41);
        let check = |answer: &[u8], expected| {
            assert_eq!(is_answer_to(answer, &query), expected, "{answer:?}");
        };
        check(&packet(7, 0x81, "example.COM", 0x41), true);
        check(&packet(8, 0x81, "example.com", 0x41), false);
        check(&packet(7, 0x01, "example.com", 0x41), false);
        check(&packet(7, 0x89, "example.com", 0x41), false);
        check(&packet(7, 0x81, "example.org", 0x41), false);
        check(&packet(7, 0x81, "www.example.com", 0x41), false);
        // No letters: these are types.
        check(&packet(7, 0x81, "example.com", 0x61), false);
        check(&packet(7, 0x81, "example.com", 0x41)[..20], false);
        let mut none = packet(7, 0x81, "example.com", 0x41);
        none[5] = 0;
        check(&none, false);
    }

    #[test]
    fn queries_share_an_answer_only_if_all_but_their_id_is_the_same() {
        let of = |id, flags, name, kind| subject(&packet(id, flags, name, kind));
        assert_eq!(of(1, 1, "EXAMPLE.com", 1), of(2, 1, "example.com", 1));
        assert_ne!(of(1, 1, "example.com", 1), of(1, 0, "example.com", 1));
        assert_ne!(of(1, 1, "example.com", 1), of(1, 1, "example.com", 28));
        assert_eq!(cut(&packet(1, 0x81, "a", 1)).unwrap()[2], 0x83);
    }

    #[test]
    fn every_ttl_is_found_behind_compressed_names() {
        let mut packet = Packet::new_reply(7);
        let name = Name::new_unchecked("a.example.com");
        let alias = RData::CNAME(CNAME(Name::new_unchecked("b.example.com")));
        packet.answers.push(ResourceRecord::new(name.clone(), CLASS::IN, 300, alias));
        packet.answers.push(ResourceRecord::new(name, CLASS::IN, 20, RData::A(A { address: 1 })));
        let bytes = packet.build_bytes_vec_compressed().unwrap();
        let ttls: Vec<_> =
            ttl_offsets(&bytes).unwrap().iter().map(|it| read_u32(&bytes, *it).unwrap()).collect();
        assert_eq!(ttls, [300, 20]);
    }

    proptest! {
        #[test]
        fn no_packet_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (subject(&bytes), cut(&bytes), is_answer_to(&bytes, &bytes));
            for offset in ttl_offsets(&bytes).unwrap_or_default() {
                prop_assert!(offset + 4 <= bytes.len());
            }
        }
    }
}
