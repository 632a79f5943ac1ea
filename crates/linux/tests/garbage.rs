//! Bytes of any kind do no harm to readers of the kernel's dumps: what the fuzz targets try at
//! length.

use proptest::collection::vec;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        linux::netlink::garbage::dump(&bytes);
    }

    /// Mostly small numbers: lengths and kinds that fit.
    #[test]
    fn small_bytes_do_no_harm(bytes in vec(0..12_u8, 0..200)) {
        linux::netlink::garbage::dump(&bytes);
    }
}
