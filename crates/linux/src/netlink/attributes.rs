//! Attributes (`struct nlattr`): length, kind, payload, padded to four bytes; nested ones hold
//! attributes themselves.
//!
//! The writer notes what does not fit and lets the socket refuse it. The reader is bounded by the
//! bytes it was given and never panics: what it cannot read ends the iteration.

use std::mem::size_of;

const HEADER: usize = 4;
const ALIGNMENT: usize = 4;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;
/// `NLA_TYPE_MASK`: without the flags for nesting and byte order.
const KIND_MASK: u16 = 0x3fff;

/// Attributes that are being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    bytes: Vec<u8>,
    /// An attribute was longer than its length field can say.
    has_overflowed: bool,
}

impl Attributes {
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes attributes in one expression.
    pub fn of(write: impl FnOnce(&mut Self)) -> Self {
        let mut attributes = Self::new();
        write(&mut attributes);
        attributes
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn has_overflowed(&self) -> bool {
        self.has_overflowed
    }

    pub fn bytes(&mut self, kind: u16, payload: &[u8]) -> &mut Self {
        let start = self.begin(kind);
        self.bytes.extend_from_slice(payload);
        self.end(start)
    }

    /// An attribute without payload, whose presence says it all.
    pub fn flag(&mut self, kind: u16) -> &mut Self {
        self.bytes(kind, &[])
    }

    pub fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.bytes(kind, &[value])
    }

    pub fn u16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn u16_be(&mut self, kind: u16, value: u16) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn u32_be(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn u64_be(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Terminated by a zero byte, as the kernel wants its strings.
    pub fn string(&mut self, kind: u16, value: &str) -> &mut Self {
        let start = self.begin(kind);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.end(start)
    }

    pub fn nest(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.begin(kind | NESTED);
        write(self);
        self.end(start)
    }

    /// As [`Self::nest`], with attributes that were written before.
    pub fn nested(&mut self, kind: u16, inner: &Self) -> &mut Self {
        self.nest(kind, |it| {
            it.append(inner);
        })
    }

    /// A nested attribute that starts with a fixed structure (`VETH_INFO_PEER` and its like).
    pub fn nest_after(
        &mut self,
        kind: u16,
        fixed: &[u8],
        write: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.nest(kind, |it| {
            it.bytes.extend_from_slice(fixed);
            it.pad();
            write(it);
        })
    }

    pub fn append(&mut self, others: &Self) -> &mut Self {
        self.bytes.extend_from_slice(&others.bytes);
        self.has_overflowed |= others.has_overflowed;
        self
    }

    fn begin(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&0u16.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    /// The length counts the header but not the padding after the payload.
    fn end(&mut self, start: usize) -> &mut Self {
        match u16::try_from(self.bytes.len() - start) {
            Ok(length) => self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes()),
            Err(_) => self.has_overflowed = true,
        }
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// The attributes in bytes that came from the kernel.
pub fn read(bytes: &[u8]) -> Reader<'_> {
    Reader { rest: bytes }
}

#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The first attribute of this kind.
    pub fn find_kind(&self, kind: u16) -> Option<Attribute<'a>> {
        self.clone().find(|it| it.kind == kind)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let length = usize::from(u16::from_ne_bytes(array(self.rest)?));
        let kind = u16::from_ne_bytes(array(self.rest.get(2..)?)?);
        let payload = self.rest.get(HEADER..length)?;
        // The last attribute may lack its padding.
        self.rest = self.rest.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some(Attribute { kind: kind & KIND_MASK, payload })
    }
}

/// One attribute that was read. Numbers are `None` when the payload is shorter than they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    pub kind: u16,
    pub payload: &'a [u8],
}

impl<'a> Attribute<'a> {
    pub fn u8(self) -> Option<u8> {
        self.payload.first().copied()
    }

    pub fn u16(self) -> Option<u16> {
        array(self.payload).map(u16::from_ne_bytes)
    }

    pub fn u32(self) -> Option<u32> {
        array(self.payload).map(u32::from_ne_bytes)
    }

    pub fn u64(self) -> Option<u64> {
        array(self.payload).map(u64::from_ne_bytes)
    }

    pub fn u16_be(self) -> Option<u16> {
        array(self.payload).map(u16::from_be_bytes)
    }

    pub fn u32_be(self) -> Option<u32> {
        array(self.payload).map(u32::from_be_bytes)
    }

    pub fn u64_be(self) -> Option<u64> {
        array(self.payload).map(u64::from_be_bytes)
    }

    /// Up to the first zero byte. `None` if it is not UTF-8.
    pub fn string(self) -> Option<&'a str> {
        let end = self.payload.iter().position(|it| *it == 0).unwrap_or(self.payload.len());
        std::str::from_utf8(&self.payload[..end]).ok()
    }

    /// As four or six bytes of an address; `None` if there are fewer.
    pub fn array<const N: usize>(self) -> Option<[u8; N]> {
        array(self.payload)
    }

    pub fn nested(self) -> Reader<'a> {
        read(self.payload)
    }
}

/// The first bytes, as many as wanted.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    debug_assert!(N <= size_of::<u64>() || N == 16, "numbers and addresses are at most this long");
    bytes.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_written_as_the_kernel_reads_them() {
        let attributes = Attributes::of(|it| {
            it.u8(1, 0xab).string(2, "eth0").nest(3, |it| {
                it.u32_be(4, 0x0102_0304).flag(5);
            });
        });
        #[rustfmt::skip]
        let expected: &[u8] = &[
            5, 0, 1, 0, 0xab, 0, 0, 0,
            9, 0, 2, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0,
            16, 0, 3, 0x80, 8, 0, 4, 0, 1, 2, 3, 4, 4, 0, 5, 0,
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(attributes.as_bytes(), expected);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let inner = Attributes::of(|it| {
            it.u64(1, 7).u64_be(2, 8).u16(3, 9).u16_be(4, 10);
        });
        let attributes = Attributes::of(|it| {
            it.u32(1, 77).nested(2, &inner).nest_after(3, &[1, 2, 3], |it| {
                it.u8(9, 1);
            });
        });
        let found = |kind| read(attributes.as_bytes()).find_kind(kind).unwrap();
        assert_eq!(found(1).u32(), Some(77));
        let numbers = found(2).nested();
        assert_eq!(numbers.find_kind(1).unwrap().u64(), Some(7));
        assert_eq!(numbers.find_kind(2).unwrap().u64_be(), Some(8));
        assert_eq!(numbers.find_kind(3).unwrap().u16(), Some(9));
        assert_eq!(numbers.find_kind(4).unwrap().u16_be(), Some(10));
        assert_eq!(read(&found(3).payload[4..]).next().unwrap().u8(), Some(1));
        assert_eq!(read(attributes.as_bytes()).find_kind(4), None);
    }

    #[test]
    fn an_attribute_longer_than_its_length_field_is_noted() {
        let mut attributes = Attributes::new();
        attributes.bytes(1, &vec![0; 65_531]);
        assert!(!attributes.has_overflowed());
        attributes.bytes(1, &vec![0; 65_532]);
        assert!(attributes.has_overflowed());
        assert!(Attributes::new().append(&attributes).has_overflowed());
    }

    #[test]
    fn a_length_that_lies_ends_the_reading() {
        let check = |bytes: &[u8], expected: usize| assert_eq!(read(bytes).count(), expected);
        check(&[], 0);
        check(&[4, 0, 1], 0);
        check(&[3, 0, 1, 0], 0);
        check(&[0, 0, 0, 0, 0, 0, 0, 0], 0);
        check(&[9, 0, 1, 0, 1, 2, 3, 4], 0);
        check(&[5, 0, 1, 0, 7], 1);
    }

    fn read_everything(bytes: &[u8], depth: usize) -> usize {
        read(bytes)
            .map(|it| {
                let _ = (it.u8(), it.u16(), it.u32(), it.u64(), it.u16_be(), it.u32_be());
                let _ = (it.u64_be(), it.string(), it.array::<4>(), it.array::<16>());
                1 + if depth == 0 { 0 } else { read_everything(it.payload, depth - 1) }
            })
            .sum()
    }

    proptest! {
        #[test]
        fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let n_attributes = read_everything(&bytes, 3);
            prop_assert!(n_attributes <= 4 * bytes.len());
        }

        /// Small numbers make lengths that are often right.
        #[test]
        fn reading_what_is_nearly_right_never_panics(
            bytes in proptest::collection::vec(0u8..12, 0..300)
        ) {
            read_everything(&bytes, 3);
        }

        #[test]
        fn any_payload_comes_back(kind in 0..KIND_MASK, payload in any::<Vec<u8>>()) {
            let attributes = Attributes::of(|it| {
                it.bytes(kind, &payload).flag(1);
            });
            let read: Vec<_> = read(attributes.as_bytes()).collect();
            prop_assert_eq!(read.len(), 2);
            prop_assert_eq!(read[0], Attribute { kind, payload: &payload });
        }
    }
}
