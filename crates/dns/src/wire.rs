//! What must be known of packets that are passed on without being understood: their id, and where their TTLs are.

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

    use super::{read_u32, ttl_offsets};

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
            for offset in ttl_offsets(&bytes).unwrap_or_default() {
                prop_assert!(offset + 4 <= bytes.len());
            }
        }
    }
}
