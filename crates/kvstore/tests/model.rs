//! Random histories and all small ones: every engine, closed and opened in between, always equals the reference.

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

#[test]
fn all_small_histories_are_right_in_memory() {
    let n_checks: u64 = (0..=4).map(torture::exhaustive).sum();
    assert!(n_checks > 100_000, "{n_checks}");
}

#[test]
fn some_small_histories_are_right_on_disk() {
    torture::sampled(1, 12, 6);
}
