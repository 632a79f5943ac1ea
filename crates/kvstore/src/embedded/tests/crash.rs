//! A crash at every operation of random work.

use crate::embedded::torture;

#[test]
fn every_crash_leaves_a_state_that_was() {
    if let Err(failure) = torture::run(1, 1_200) {
        panic!("{failure}");
    }
}
