//! Which node ports are taken, as upstream's API server keeps it in the store: one bit for each
//! port of the range, in a RangeAllocation. Pure.
//!
//! Where upstream has made one, its bits change in one transaction with each Service, so that both
//! servers over one etcd never give out the same port. Where there is none it is not made: upstream
//! makes its own from the Services that it finds.

use std::collections::BTreeSet;

use bytes::Bytes;

pub(super) const KEY: &str = "ranges/servicenodeports";
const MAGIC: &[u8] = b"k8s\0";
/// Upstream's names of what is in the value, and the empty metadata that it writes.
const TYPE: &[u8] = b"\x0a\x02v1\x12\x0fRangeAllocation";
const METADATA: &[u8] = b"\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00";

/// The bits of a range, at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodePortRange {
    pub(super) first: u128,
    last: u128,
    pub(super) ports: BTreeSet<u128>,
    /// What the key was written at.
    pub(super) revision: u64,
}

impl NodePortRange {
    /// `None`: it is not in upstream's form.
    pub(super) fn decode(value: &[u8], revision: u64) -> Option<Self> {
        let unknown = value.strip_prefix(MAGIC)?;
        let object = field(unknown, 2)?;
        let range = std::str::from_utf8(field(object, 2)?).ok()?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        let data = field(object, 3).unwrap_or_default();
        let mut ports = BTreeSet::new();
        // A number, the highest byte first: its lowest bit is the first port.
        for (index, byte) in data.iter().rev().enumerate() {
            for bit in (0..8).filter(|it| byte & (1 << it) != 0) {
                ports.insert(first + u128::try_from(index * 8 + bit).ok()?);
            }
        }
        Some(Self { first, last, ports, revision })
    }

    /// The value with these ports added and those taken away.
    pub(super) fn encode_with(&self, come: &[u128], go: &[u128]) -> Bytes {
        let is_in = |it: &&u128| (self.first..=self.last).contains(it);
        let mut ports = self.ports.clone();
        go.iter().for_each(|it| {
            ports.remove(it);
        });
        ports.extend(come.iter().filter(is_in));
        let bit_of = |port: &u128| usize::try_from(port - self.first).unwrap_or(0);
        let n_bytes = ports.last().map_or(0, |it| bit_of(it) / 8 + 1);
        let mut data = vec![0_u8; n_bytes];
        for bit in ports.iter().map(bit_of) {
            data[n_bytes - 1 - bit / 8] |= 1 << (bit % 8);
        }
        let range = format!("{}-{}", self.first, self.last);
        let mut object = Vec::new();
        put(&mut object, 1, METADATA);
        put(&mut object, 2, range.as_bytes());
        put(&mut object, 3, &data);
        let mut value = MAGIC.to_vec();
        put(&mut value, 1, TYPE);
        put(&mut value, 2, &object);
        put(&mut value, 3, b"");
        put(&mut value, 4, b"");
        value.into()
    }
}

/// The first field of this number in a protobuf message of fields that have a length.
fn field(mut message: &[u8], wanted: u8) -> Option<&[u8]> {
    while let [tag, rest @ ..] = message {
        // Numbers up to 15, with a length: all that these messages have.
        if tag & 7 != 2 {
            return None;
        }
        let (length, rest) = varint(rest)?;
        let (content, rest) = rest.split_at_checked(length)?;
        if tag >> 3 == wanted {
            return Some(content);
        }
        message = rest;
    }
    None
}

fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_usize;
    for (index, byte) in bytes.iter().enumerate().take(4) {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

fn put(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    message.push(number << 3 | 2);
    let mut length = content.len();
    while length > 0x7f {
        message.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    message.push(u8::try_from(length).unwrap_or(0));
    message.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What kube-apiserver v1.36.4 writes when 30001 and 30012 are taken.
    const UPSTREAM: &[u8] = b"k8s\x00\n\x15\n\x02v1\x12\x0fRangeAllocation\x12#\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\x0b30000-32767\x1a\x02\x10\x02\x1a\x00\"\x00";
    const EMPTY: &[u8] = b"k8s\x00\n\x15\n\x02v1\x12\x0fRangeAllocation\x12!\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\x0b30000-32767\x1a\x00\x1a\x00\"\x00";

    fn empty() -> NodePortRange {
        NodePortRange::decode(EMPTY, 7).expect("upstream's form")
    }

    #[test]
    fn upstreams_values_are_read_and_written_byte_by_byte() {
        let range = NodePortRange::decode(UPSTREAM, 7).expect("upstream's form");
        assert_eq!(range.ports, [30_001, 30_012].into());
        assert_eq!(range.encode_with(&[], &[]), UPSTREAM);
        assert_eq!(range.encode_with(&[], &[30_001, 30_012]), EMPTY);
        assert_eq!(empty().encode_with(&[30_012, 30_001, 80], &[30_100]), UPSTREAM);
    }

    #[test]
    fn what_is_not_upstreams_form_is_none() {
        for value in [&b""[..], b"k8s\0", b"{}", &UPSTREAM[..40], b"k8s\0\x12\xff\xff\xff\xff\x01"]
        {
            assert_eq!(NodePortRange::decode(value, 1), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ports in prop::collection::btree_set(30_000..=32_767_u128, 0..50)) {
            let come: Vec<u128> = ports.iter().copied().collect();
            let written = empty().encode_with(&come, &[]);
            let read = NodePortRange::decode(&written, 7).expect("the same form");
            prop_assert_eq!(read.ports, ports);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let with_magic = [MAGIC, &bytes].concat();
            let _ = NodePortRange::decode(&with_magic, 1);
        }
    }
}
