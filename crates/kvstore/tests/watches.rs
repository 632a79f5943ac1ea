//! Watches keep their promises on every engine while others write and compact.

use kvstore::torture;

#[test]
fn watches_of_all_kinds_are_valid_under_load() {
    torture::watches(1, 4);
}
