//! Encoded parts of a certificate, as they are: signatures are over bytes, and algorithms are
//! compared by them.

use x509_parser::asn1_rs::{Any, FromDer as _};

/// With class and form, which the parser does not look at.
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// What is in a SEQUENCE that has nothing after it.
pub(super) fn content(der: &[u8]) -> Option<&[u8]> {
    content_of(SEQUENCE, der)
}

/// Whole bytes in a BIT STRING.
pub(super) fn bytes(der: &[u8]) -> Option<&[u8]> {
    // First the number of bits at the end that do not count.
    content_of(BIT_STRING, der)?.strip_prefix(&[0])
}

fn content_of(head: u8, der: &[u8]) -> Option<&[u8]> {
    let (rest, element) = Any::from_der(der).ok()?;
    (rest.is_empty() && der.first() == Some(&head)).then_some(element.data)
}

/// The elements of a SEQUENCE of just so many, each with its head.
pub(super) fn elements<const N: usize>(der: &[u8]) -> Option<[&[u8]; N]> {
    let mut left = content(der)?;
    let mut elements = [&[][..]; N];
    for element in &mut elements {
        let (rest, _) = Any::from_der(left).ok()?;
        (*element, left) = left.split_at(left.len() - rest.len());
    }
    left.is_empty().then_some(elements)
}
