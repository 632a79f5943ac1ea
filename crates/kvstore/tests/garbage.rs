//! Bytes of any kind do no harm to the decoders of stored bytes: what the fuzz targets try at length.

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

/// What fuzzing found.
#[test]
fn a_store_that_claims_revisions_without_a_next_one_is_refused() {
    garbage::engine(&[250, 0, 0, 0, 0, 0]);
}
