//! Days in, fates of tokens out.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;

use super::plan::{Action, Candidate, Limits, plan};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn now() -> Timestamp {
    "2026-06-15T12:00:00Z".parse().unwrap()
}

fn limits() -> Limits {
    Limits::new("2024-01-01", YEAR, now()).expect("it was tracked for long")
}

fn candidate<'a>(last_used: Option<&'a str>, invalid_since: Option<&'a str>) -> Candidate<'a> {
    let created = Some("2023-01-01T00:00:00Z".parse().unwrap());
    Candidate { created, is_automatic: true, is_deleting: false, last_used, invalid_since }
}

fn check(candidate: &Candidate<'_>, expected: &str) {
    assert_eq!(format!("{:?}", plan(candidate, &limits())), expected);
}

const MARKED: &str = "Invalidate(\"2026-06-15\")";

#[test]
fn a_token_that_nobody_used_for_a_year_is_marked_and_after_another_one_deleted() {
    check(&candidate(None, None), MARKED);
    check(&candidate(Some("2025-06-14"), None), MARKED);
    check(&candidate(Some("2025-06-15"), None), "Nothing");
    check(&candidate(Some("2025-06-14"), Some("2025-06-15")), "Nothing");
    check(&candidate(Some("2025-06-14"), Some("2025-06-14")), "Delete");
    check(&candidate(None, Some("someday")), MARKED);
}

#[test]
fn a_day_that_cannot_be_read_tells_nothing() {
    check(&candidate(Some("yesterday"), None), "Nothing");
    check(&candidate(Some("2025-6-1"), None), "Nothing");
}

#[test]
fn tokens_that_were_made_by_hand_are_young_or_leave_are_let_be() {
    check(&Candidate { is_automatic: false, ..candidate(None, None) }, "Nothing");
    check(&Candidate { is_deleting: true, ..candidate(None, None) }, "Nothing");
    let created = Some("2026-01-01T00:00:00Z".parse().unwrap());
    check(&Candidate { created, ..candidate(None, None) }, "Nothing");
    check(&Candidate { created: None, ..candidate(None, None) }, "Nothing");
}

#[test]
fn nothing_is_decided_before_uses_were_tracked_for_a_whole_period() {
    let is_decided = |since: &str| Limits::new(since, YEAR, now()).is_some();
    assert!(is_decided("2025-06-14"));
    // Of that day a part is missing.
    assert!(!is_decided("2025-06-15"));
    assert!(!is_decided("") && !is_decided("soon"));
}

proptest! {
    #[test]
    fn a_mark_is_set_once(last_used in prop::option::of("202[3-6]-0[1-9]-1[0-9]"), mark in prop::option::of("202[3-6]-0[1-9]-1[0-9]")) {
        let rested = converges(
            |mark: &Option<String>| match plan(&candidate(last_used.as_deref(), mark.as_deref()), &limits()) {
                Action::Invalidate(day) => vec![day],
                Action::Nothing | Action::Delete => Vec::new(),
            },
            |mark, day| *mark = Some(day),
            mark,
            1,
        );
        prop_assert!(rested.is_ok());
    }
}
