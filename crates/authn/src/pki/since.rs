//! Since when a certificate is one of its node, as a revision of the store: an extension that our
//! signer writes, and others overlook. Clocks are not asked: which of two things was written first,
//! revisions say for certain.

use x509_parser::prelude::X509Certificate;

use super::der::{self, value};

/// 2.25.1736920165. Clients in Go take no certificate in whose identifiers is a number of more than 31
/// bits, so this is that of a UUID (ITU-T X.667) that is nearly all zeros.
pub(super) const ID: &[u8] = &[0x69, 0x86, 0xbc, 0x9d, 0x98, 0x65];

/// The content of the extension: an INTEGER.
pub(super) fn write(revision: u64) -> Vec<u8> {
    let bytes = revision.to_be_bytes();
    let bytes: Vec<u8> = bytes.into_iter().skip_while(|it| *it == 0).collect();
    // None is negative, and zero has a byte, too.
    let is_negative = bytes.first().is_none_or(|it| *it >= 0x80);
    let sign: &[u8] = if is_negative { &[0] } else { &[] };
    value(der::INTEGER, &[sign, &bytes].concat())
}

/// What is no such INTEGER says nothing.
pub(crate) fn read(certificate: &X509Certificate<'_>) -> Option<u64> {
    let extension = certificate.extensions().iter().find(|it| it.oid.as_bytes() == ID)?;
    let [der::INTEGER, length, digits @ ..] = extension.value else { return None };
    let is_whole = usize::from(*length) == digits.len();
    let digits = match digits {
        [0, rest @ ..] => rest,
        [first, ..] if *first < 0x80 => digits,
        _ => return None,
    };
    let fits = is_whole && digits.len() <= size_of::<u64>();
    fits.then(|| digits.iter().fold(0, |number, it| number << 8 | u64::from(*it)))
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn a_revision_is_as_short_as_it_can_be() {
        assert_eq!(write(0), [2, 1, 0]);
        assert_eq!(write(127), [2, 1, 127]);
        assert_eq!(write(128), [2, 2, 0, 128]);
        assert_eq!(write(0x1234), [2, 2, 0x12, 0x34]);
        assert_eq!(write(u64::MAX), [2, 9, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    }
}
