//! Bytes of any kind do no harm to the decoders of stored bytes: what the fuzz targets try at
//! length.

use kvstore::embedded::garbage;
use proptest::collection::vec;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        garbage::frame(&bytes);
        garbage::log(&bytes);
        garbage::record(&bytes);
        garbage::snapshot(&bytes);
        garbage::engine(&bytes);
    }

    /// Mostly small numbers: lengths and kinds that fit.
    #[test]
    fn small_bytes_do_no_harm(bytes in vec(0..12_u8, 0..300)) {
        garbage::log(&bytes);
        garbage::record(&bytes);
        garbage::snapshot(&bytes);
        garbage::engine(&bytes);
    }
}

/// What fuzzing found: revisions and versions without a next one.
#[test]
fn a_store_whose_numbers_are_used_up_does_no_harm() {
    garbage::engine(&[250, 0, 0, 0, 0, 0]);
    garbage::engine(&[35, 253]);
    garbage::engine(&[1, 1, 1, 0, 0, 0, 4, 5, 0, 0, 1, 0, 1, 250, 0, 0]);
}
