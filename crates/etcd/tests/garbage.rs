//! Bytes of any kind do no harm to those who speak etcd's protocol: what the fuzz targets try at
//! length.

use etcd::garbage;
use proptest::collection::vec;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        garbage::messages(&bytes);
        garbage::connection(&bytes);
        garbage::calls(&bytes);
    }
}
