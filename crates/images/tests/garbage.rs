//! Bytes of any kind do no harm to readers of images: what the fuzz targets try at length.

use proptest::collection::vec;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        images::garbage::documents(&bytes);
        let directory = tempfile::tempdir().unwrap();
        images::garbage::layer(&bytes, directory.path());
    }

    /// Mostly small numbers: lengths and kinds that fit.
    #[test]
    fn small_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..600)) {
        images::garbage::documents(&bytes);
        let directory = tempfile::tempdir().unwrap();
        images::garbage::layer(&bytes, directory.path());
    }

    /// What looks like what is expected gets further.
    #[test]
    fn texts_do_no_harm(text in "[a-z0-9/:@.{}\\[\\]\",-]{0,80}") {
        let bytes = text.into_bytes();
        images::garbage::documents(&bytes);
        let directory = tempfile::tempdir().unwrap();
        images::garbage::layer(&bytes, directory.path());
    }
}
