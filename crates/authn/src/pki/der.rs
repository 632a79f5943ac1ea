//! What a certificate is written in (X.690, DER): as much of it as certificates take.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// A value with its tag and its length.
pub(super) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut written = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => written.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let bytes: Vec<u8> = bytes.into_iter().skip_while(|it| *it == 0).collect();
            written.push(0x80 | u8::try_from(bytes.len()).unwrap_or(u8::MAX));
            written.extend(bytes);
        }
    }
    written.extend_from_slice(content);
    written
}

pub(super) fn sequence<I: IntoIterator<Item = Vec<u8>>>(parts: I) -> Vec<u8> {
    value(SEQUENCE, &parts.into_iter().flatten().collect::<Vec<_>>())
}

/// Whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0], bytes].concat())
}

/// Named bits, the first of which is bit 0: what follows the last that is set is left out.
pub(super) fn named_bits(bits: u16) -> Vec<u8> {
    let bytes = bits.reverse_bits().to_be_bytes();
    let length = if bits == 0 { 0 } else { (16 - bits.leading_zeros()).div_ceil(8) };
    let bytes = &bytes[..length as usize];
    let unused = bytes.last().map_or(0, |it| it.trailing_zeros() as u8);
    value(BIT_STRING, &[&[unused], bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::{named_bits, value};

    #[test]
    fn lengths_are_as_short_as_they_can_be() {
        assert_eq!(value(4, b"ab"), [4, 2, b'a', b'b']);
        assert_eq!(value(4, &[0; 127])[..2], [4, 127]);
        assert_eq!(value(4, &[0; 128])[..3], [4, 0x81, 128]);
        assert_eq!(value(4, &[0; 300])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn named_bits_end_with_the_last_that_is_set() {
        assert_eq!(named_bits(0b101), [3, 2, 5, 0b1010_0000]);
        assert_eq!(named_bits(0b1_0000_0000), [3, 3, 7, 0, 0b1000_0000]);
        assert_eq!(named_bits(0), [3, 1, 0]);
        assert_eq!(named_bits(0xff), [3, 2, 0, 0xff]);
    }
}
