//! Headers of IPv4 (RFC 791), and what is answered to whoever sent a packet that goes nowhere
//! (RFC 792). Pure; any bytes are taken.

use std::net::Ipv4Addr;

const HEADER_MIN: usize = 20;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const SUM: usize = 10;
const ICMP: u8 = 1;
const ICMP_HEADER: usize = 8;
/// As much of a packet as its sender is shown.
const SHOWN: usize = 8;
const TTL_OF_ANSWERS: u8 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    length: usize,
    is_first_fragment: bool,
    protocol: u8,
}

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// Nobody has such pods.
    Network,
    TooOld,
}

/// `None`: it is no packet of IPv4, or not all of it is there.
pub(crate) fn header(packet: &[u8]) -> Option<Header> {
    let fixed: &[u8; HEADER_MIN] = packet.first_chunk()?;
    let length = usize::from(fixed[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let is_whole = (HEADER_MIN..=total).contains(&length) && total == packet.len();
    if fixed[0] >> 4 != 4 || !is_whole {
        return None;
    }
    let address = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(bytes))
    };
    Some(Header {
        source: address(12)?,
        destination: address(16)?,
        length,
        is_first_fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff == 0,
        protocol: fixed[PROTOCOL],
    })
}

/// Takes one from the packet's time to live. False if it has none left: then nothing changes.
pub(crate) fn age(packet: &mut [u8]) -> bool {
    let Some(fixed) = packet.first_chunk_mut::<HEADER_MIN>() else { return false };
    if fixed[TTL] <= 1 {
        return false;
    }
    fixed[TTL] -= 1;
    // The sum, as one's complement of a sum, grows by what the field lost (RFC 1141).
    let sum = u32::from(u16::from_be_bytes([fixed[SUM], fixed[SUM + 1]])) + 0x100;
    let folded = (sum & 0xffff) + (sum >> 16);
    let [.., high, low] = folded.to_be_bytes();
    (fixed[SUM], fixed[SUM + 1]) = (high, low);
    true
}

/// To whoever sent the packet; `None` where nothing may be answered. It comes from where the packet
/// should have gone: an answer from an address of this node would come in over a link behind which
/// that is not, and be dropped.
pub(crate) fn answer(packet: &[u8], why: Unreachable) -> Option<Vec<u8>> {
    let header = header(packet)?;
    let body = packet.get(header.length..)?;
    // About errors no errors are told (RFC 1122 3.2.2): all but questions and answers.
    let is_error = header.protocol == ICMP && !matches!(body.first(), Some(0 | 8 | 13 | 14));
    let is_nobodys = header.source.is_unspecified() || header.source.is_multicast();
    if !header.is_first_fragment || is_error || is_nobodys || header.source.is_broadcast() {
        return None;
    }
    let (kind, code) = match why {
        Unreachable::Network => (3, 0),
        Unreachable::TooOld => (11, 0),
    };
    let shown = packet.get(..(header.length + SHOWN).min(packet.len()))?;
    let length = HEADER_MIN + ICMP_HEADER + shown.len();
    let [.., high, low] = length.to_be_bytes();
    let mut answer = vec![0x45, 0xc0, high, low, 0, 0, 0, 0, TTL_OF_ANSWERS, ICMP, 0, 0];
    answer.extend(header.destination.octets());
    answer.extend(header.source.octets());
    let sum = checksum(&answer);
    answer[SUM..SUM + 2].copy_from_slice(&sum);
    answer.extend([kind, code, 0, 0, 0, 0, 0, 0]);
    answer.extend(shown);
    let sum = checksum(answer.get(HEADER_MIN..)?);
    answer.get_mut(HEADER_MIN + 2..HEADER_MIN + 4)?.copy_from_slice(&sum);
    Some(answer)
}

/// Of RFC 1071.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let word = |it: &[u8]| {
        let low = it.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([it.first().copied().unwrap_or(0), low]))
    };
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let [.., high, low] = (!sum).to_be_bytes();
    [high, low]
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of UDP, with a little in it.
    pub(crate) fn packet(source: &str, destination: &str, ttl: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 32, 7, 7, 0x40, 0, ttl, 17, 0, 0];
        for address in [source, destination] {
            packet.extend(address.parse::<Ipv4Addr>().unwrap().octets());
        }
        let sum = checksum(&packet);
        packet[SUM..SUM + 2].copy_from_slice(&sum);
        packet.extend([0, 1, 0, 2, 0, 12, 0, 0, b'a', b'b', b'c', b'd']);
        packet
    }

    #[test]
    fn the_sum_of_an_aged_packet_is_right() {
        for ttl in 2..=255 {
            let mut packet = packet("10.244.1.7", "10.244.2.9", ttl);
            assert!(age(&mut packet));
            assert_eq!(packet[TTL], ttl - 1);
            assert_eq!(checksum(&packet[..HEADER_MIN]), [0, 0], "{ttl}");
        }
        let old = packet("10.244.1.7", "10.244.2.9", 1);
        let mut aged = old.clone();
        assert!(!age(&mut aged));
        assert_eq!(aged, old);
    }

    #[test]
    fn whoever_sends_to_nobody_is_shown_what_he_sent() {
        let sent = packet("10.244.1.7", "10.244.9.9", 64);
        for (why, kind) in [(Unreachable::Network, 3), (Unreachable::TooOld, 11)] {
            let told = answer(&sent, why).unwrap();
            let header = header(&told).unwrap();
            assert_eq!(header.source.to_string(), "10.244.9.9");
            assert_eq!(header.destination.to_string(), "10.244.1.7");
            assert_eq!(checksum(&told[..HEADER_MIN]), [0, 0]);
            assert_eq!(checksum(&told[HEADER_MIN..]), [0, 0]);
            assert_eq!((told[HEADER_MIN], told[HEADER_MIN + 1]), (kind, 0));
            assert_eq!(told[HEADER_MIN + ICMP_HEADER..], sent[..HEADER_MIN + SHOWN]);
        }
    }

    #[test]
    fn nothing_is_answered_to_an_answer_a_later_fragment_or_nobody() {
        let check = |change: fn(&mut Vec<u8>)| {
            let mut sent = packet("10.244.1.7", "10.244.9.9", 64);
            change(&mut sent);
            assert_eq!(answer(&sent, Unreachable::Network), None, "{sent:?}");
        };
        check(|it| (it[PROTOCOL], it[HEADER_MIN]) = (ICMP, 3));
        check(|it| it[7] = 1);
        check(|it| it[12..16].fill(0));
        check(|it| it[12..16].fill(255));
        check(|it| it[12] = 224);
        let mut question = packet("10.244.1.7", "10.244.9.9", 64);
        (question[PROTOCOL], question[HEADER_MIN]) = (ICMP, 8);
        assert!(answer(&question, Unreachable::Network).is_some());
    }

    #[test]
    fn what_is_no_packet_of_ipv4_is_none() {
        let check = |change: fn(&mut Vec<u8>)| {
            let mut bytes = packet("10.244.1.7", "10.244.9.9", 64);
            assert!(header(&bytes).is_some());
            change(&mut bytes);
            assert_eq!(header(&bytes), None, "{bytes:?}");
        };
        check(|it| it.clear());
        check(|it| it[0] = 0x65);
        check(|it| it[0] = 0x44);
        check(|it| it[0] = 0x4f);
        check(|it| it.push(0));
        check(|it| it.truncate(31));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let before = bytes.len();
            if header(&bytes).is_some() {
                let _ = answer(&bytes, Unreachable::TooOld);
                age(&mut bytes);
            }
            prop_assert_eq!(bytes.len(), before);
        }
    }
}
