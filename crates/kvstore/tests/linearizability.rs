//! Concurrent clients see each engine as if they came one after another.

use kvstore::torture;

#[test]
fn every_engine_is_linearizable() {
    torture::linearizable(1, 4);
}
