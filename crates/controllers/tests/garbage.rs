//! Objects of any kind do no harm to those who plan: what the fuzz targets try at length.

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use proptest::collection::vec;
use proptest::prelude::*;
use stdx::Random;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// More of them by `cargo xtask fuzz`.
const DRAWS: u64 = 200;

/// Each draw is another world, and of each all plans are tried, so that all who fail are known.
#[test]
fn no_plan_panics_or_wants_too_much_at_once() {
    let mut failed = BTreeSet::new();
    for seed in 0..DRAWS {
        let random = Random::from_seed(seed);
        for plan in 0..controllers::garbage::N_PLANS {
            let mut bytes = vec![0; 6000];
            random.fill(&mut bytes);
            bytes[0] = u8::try_from(plan).expect("there are few");
            if catch_unwind(|| controllers::garbage::plans(&bytes)).is_err() {
                failed.insert((plan, seed));
            }
        }
    }
    assert!(failed.is_empty(), "plans that fail, with the seed: {failed:?}");
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn schedules_of_any_bytes_go_on_or_are_refused(bytes in vec(any::<u8>(), 0..60)) {
        controllers::garbage::cron(&bytes);
    }

    #[test]
    fn schedules_that_are_nearly_right_go_on_or_are_refused(
        text in "(TZ=[A-Z/a-z]{0,12} )?([0-9*/,?LW#-]{1,6}|MON|FEB)( ([0-9*/,?-]{1,6}|MON-FRI|2#3)){4}(\n[A-Za-z/]{3,12})?"
    ) {
        controllers::garbage::cron(text.as_bytes());
    }

    #[test]
    fn indexes_of_any_text_are_below_their_number(
        size: u8, text in "([0-9]{0,11}[,-]?){0,8}", bytes in vec(any::<u8>(), 0..40),
    ) {
        let with_size = |rest: &[u8]| [&[size], rest].concat();
        controllers::garbage::indexes(&with_size(text.as_bytes()));
        controllers::garbage::indexes(&with_size(&bytes));
    }
}
