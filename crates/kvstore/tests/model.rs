//! Random histories and all small ones: every engine, closed and opened in between, always equals
//! the reference.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use kvstore::torture::{self, Engine};
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn check(engine: Engine, words: &[u128]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(torture::check_words(engine, words));
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn the_memory_engine_is_the_reference(words in prop::collection::vec(any::<u128>(), 1..30)) {
        check(Engine::Memory, &words);
    }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn the_embedded_engine_is_the_reference(words in prop::collection::vec(any::<u128>(), 1..30)) {
        check(Engine::IN_MEMORY, &words);
        check(Engine::OLD_ON_DISK, &words);
        check(Engine::VALUES_ON_DISK, &words);
    }
}

/// Of three keys, with every compaction: `torture::exhaustive` says what that comes to. Six steps
/// are for `cargo xtask torture`.
fn check_small_histories(engine: Engine, length: u32, expected: (u64, u64)) {
    let tally = torture::exhaustive(engine, length);
    assert_eq!((tally.histories, tally.stores), expected);
    assert!(tally.checks > 30 * tally.stores, "{tally:?}");
}

#[test]
fn all_small_histories_are_right_in_memory() {
    check_small_histories(Engine::Memory, 4, (2_801, 12_986));
}

#[test]
fn all_small_histories_are_right_on_disk() {
    check_small_histories(Engine::ON_DISK, 4, (2_801, 12_986));
}

#[test]
fn some_longer_histories_are_right_with_threads_and_a_real_disk() {
    for engine in Engine::ALL {
        torture::sampled(engine, 1, 2, 6);
    }
}
