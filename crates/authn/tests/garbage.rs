//! Bytes of any kind do no harm to those who read a client's certificate: what the fuzz target
//! tries at length.

use proptest::collection::vec;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() }
}

/// A SEQUENCE of what is given, as deep as it says.
fn nested(content: &[u8], depth: usize) -> Vec<u8> {
    (0..depth).fold(content.to_vec(), |inner, _| {
        let length = u16::try_from(inner.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&[0x30, 0x82, length[0], length[1]], &inner[..]].concat()
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..600)) {
        authn::pki::garbage::certificate(&bytes);
    }

    #[test]
    fn any_bytes_within_sequences_do_no_harm(bytes in vec(any::<u8>(), 0..300), depth in 0..60_usize) {
        authn::pki::garbage::certificate(&nested(&bytes, depth));
    }

    /// Mostly tags and lengths that fit.
    #[test]
    fn what_looks_like_der_does_no_harm(
        words in vec(prop_oneof![Just(0x30_u8), Just(0x02), Just(0x06), Just(0xa0), Just(0x17), 0..8_u8], 0..300),
    ) {
        authn::pki::garbage::certificate(&nested(&words, 2));
    }
}
