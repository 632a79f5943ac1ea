//! Bytes of any kind do no harm to what the kubelet's clients send: what the fuzz targets try at
//! length.

use proptest::collection::vec;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        kubelet::server::garbage::path(&bytes);
        kubelet::server::garbage::spdy(&bytes);
        kubelet::server::garbage::websocket(&bytes);
    }

    /// Mostly small numbers: lengths and kinds that fit.
    #[test]
    fn small_bytes_do_no_harm(bytes in vec(0..12_u8, 0..200)) {
        kubelet::server::garbage::path(&bytes);
        kubelet::server::garbage::spdy(&bytes);
        kubelet::server::garbage::websocket(&bytes);
    }

    /// What looks like what is expected gets further.
    #[test]
    fn texts_do_no_harm(text in "/[/%?=&a-z0-9.]{0,60}") {
        let bytes = text.into_bytes();
        kubelet::server::garbage::path(&bytes);
        kubelet::server::garbage::spdy(&bytes);
        kubelet::server::garbage::websocket(&bytes);
    }
}
