//! Text in; problem, or times out.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::{Schedule, find_zone};

fn check_error(text: &str, expected: &str) {
    match Schedule::parse(text) {
        Ok(schedule) => panic!("{text:?} is {schedule:?}"),
        Err(problem) => assert_eq!(problem.to_string(), expected, "{text:?}"),
    }
}

/// The next times, as the clocks of the zone show them.
fn check(text: &str, zone: &str, after: &str, expected: &[&str]) {
    let schedule = Schedule::parse(text).unwrap();
    let zone = find_zone(zone).unwrap();
    let mut time: Timestamp = after.parse().unwrap();
    for expected in expected {
        let next = schedule.next_after(time, &zone).unwrap();
        assert_eq!(
            next.to_zoned(zone.clone()).strftime("%F %T %z").to_string(),
            *expected,
            "{text:?}"
        );
        time = next;
    }
}

fn check_never(text: &str) {
    let schedule = Schedule::parse(text).unwrap();
    let time = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(schedule.next_after(time, &TimeZone::UTC), None, "{text:?}");
}

/// Both texts mean the same.
fn check_same(text: &str, other: &str) {
    assert_eq!(Schedule::parse(text).unwrap(), Schedule::parse(other).unwrap(), "{text:?}");
}

#[test]
fn a_schedule_has_five_fields() {
    check_error("", "empty spec string");
    check_error(" ", "expected exactly 5 fields, found 0: []");
    check_error("* * *", "expected exactly 5 fields, found 3: [* * *]");
    check_error("0 0 * * * *", "expected exactly 5 fields, found 6: [0 0 * * * *]");
    check_same(" 1\t2   3 4 5 ", "1 2 3 4 5");
}

#[test]
fn a_field_has_values_ranges_and_steps() {
    check_same("1,2,3 * * * *", "1-3 * * * *");
    check_same("*/15 * * * *", "0,15,30,45 * * * *");
    check_same("10/20 * * * *", "10,30,50 * * * *");
    check_same("10-40/20 * * * *", "10,30 * * * *");
    check_same("59/4294967297 * * * *", "59 * * * *");
    check_same("+5 * * * *", "5 * * * *");
    check_same("5,,6, * * * *", "5,6 * * * *");
    check_same("? ? ? ? ?", "* * * * *");
    check_same("*-9 */1 * * *", "* * * * *");
    check_same("0 0 * JAN-mar Sun,sat", "0 0 * 1-3 0,6");
}

#[test]
fn what_a_field_cannot_hold_is_refused_in_the_known_words() {
    let number = |it: &str| {
        format!("failed to parse int from {it}: strconv.Atoi: parsing {it:?}: invalid syntax")
    };
    check_error("60 * * * *", "end of range (60) above maximum (59): 60");
    check_error("* 24 * * *", "end of range (24) above maximum (23): 24");
    check_error("* * 0 * *", "beginning of range (0) below minimum (1): 0");
    check_error("* * * 13 *", "end of range (13) above maximum (12): 13");
    check_error("* * * * 7", "end of range (7) above maximum (6): 7");
    check_error("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3");
    check_error("1-2-3 * * * *", "too many hyphens: 1-2-3");
    check_error("1/2/3 * * * *", "too many slashes: 1/2/3");
    check_error("*/0 * * * *", "step of range should be a positive number: */0");
    check_error("*/-2 * * * *", "negative number (-2) not allowed: -2");
    check_error("-1 * * * *", &number(""));
    check_error("a * * * *", &number("a"));
    check_error("* jan * * *", &number("jan"));
    check_error("* * * * monday", &number("monday"));
    check_error(
        "99999999999999999999 * * * *",
        "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
    );
    // The first problem alone is told.
    check_error("60 24 * * *", "end of range (60) above maximum (59): 60");
}

#[test]
fn some_schedules_have_names() {
    check_same("@hourly", "0 * * * *");
    check_same("@daily", "0 0 * * *");
    check_same("@midnight", "0 0 * * *");
    check_same("@weekly", "0 0 * * 0");
    check_same("@monthly", "0 0 1 * *");
    check_same("@yearly", "0 0 1 1 *");
    check_same("@annually", "0 0 1 1 *");
    check_error("@Hourly", "unrecognized descriptor: @Hourly");
    check_error("@every", "unrecognized descriptor: @every");
}

#[test]
fn an_interval_is_in_whole_seconds() {
    check_same("@every 1h30m", "@every 90m");
    check_same("@every 1.5s", "@every 1s");
    check_same("@every 1ms", "@every 1s");
    check_same("@every -5m", "@every 1s");
    check_same("@every 2\u{b5}s3s", "@every 3s");
    check(
        "@every 90s",
        "",
        "2026-01-01T00:00:00.7Z",
        &["2026-01-01 00:01:30 +0000", "2026-01-01 00:03:00 +0000"],
    );
    let problem = |it: &str| format!("failed to parse duration @every {it}");
    check_error("@every 5", &(problem("5") + ": time: missing unit in duration \"5\""));
    check_error("@every 5d", &(problem("5d") + ": time: unknown unit \"d\" in duration \"5d\""));
    check_error("@every .s", &(problem(".s") + ": time: invalid duration \".s\""));
    check_error("@every ", &(problem("") + ": time: invalid duration \"\""));
    check_error(
        "@every 9999999999h",
        &(problem("9999999999h") + ": time: invalid duration \"9999999999h\""),
    );
}

#[test]
fn a_schedule_may_name_its_zone() {
    check(
        "TZ=Asia/Tokyo 0 9 * * *",
        "Europe/Berlin",
        "2026-01-01T00:00:00Z",
        &["2026-01-02 01:00:00 +0100"],
    );
    check_same("TZ=Asia/Tokyo @daily", "CRON_TZ=Asia/Tokyo 0 0 * * *");
    check_same("TZ=Local 0 9 * * *", "0 9 * * *");
    check_error(
        "TZ=Mars/Phobos 0 9 * * *",
        "provided bad location Mars/Phobos: unknown time zone Mars/Phobos",
    );
    check_error("TZ=UTC ", "expected exactly 5 fields, found 0: []");
    check_error("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]");
}

#[test]
fn zones_are_those_of_the_database_with_their_capitals() {
    for name in ["", "UTC", "Etc/UTC", "Europe/Berlin", "US/Pacific", "Etc/GMT+5", "EST5EDT"] {
        assert!(find_zone(name).is_ok(), "{name}");
    }
    for name in ["europe/berlin", "Local", "Etc/Unknown", "CEST", "UTC+1"] {
        assert_eq!(find_zone(name).unwrap_err().to_string(), format!("unknown time zone {name}"));
    }
    for name in ["/UTC", "../UTC", "Europe/..Berlin"] {
        assert_eq!(find_zone(name).unwrap_err().to_string(), "time: invalid location name");
    }
}

#[test]
fn the_next_time_is_after_the_given_one() {
    check(
        "*/15 * * * *",
        "",
        "2026-01-01T00:00:00Z",
        &["2026-01-01 00:15:00 +0000", "2026-01-01 00:30:00 +0000"],
    );
    check("*/15 * * * *", "", "2026-01-01T00:14:59.999Z", &["2026-01-01 00:15:00 +0000"]);
    check("30 14 * * *", "", "2026-01-01T14:30:01Z", &["2026-01-02 14:30:00 +0000"]);
    check(
        "0 0 1 * *",
        "",
        "2026-01-31T12:00:00Z",
        &["2026-02-01 00:00:00 +0000", "2026-03-01 00:00:00 +0000"],
    );
    check("59 23 31 12 *", "", "2026-12-31T23:59:00Z", &["2027-12-31 23:59:00 +0000"]);
    check("0 0 29 2 *", "", "2026-01-01T00:00:00Z", &["2028-02-29 00:00:00 +0000"]);
}

#[test]
fn of_two_kinds_of_days_one_is_enough() {
    // The 13th, and Fridays.
    check(
        "0 0 13 * fri",
        "",
        "2026-02-01T00:00:00Z",
        &["2026-02-06 00:00:00 +0000", "2026-02-13 00:00:00 +0000", "2026-02-20 00:00:00 +0000"],
    );
    check("0 0 * * fri", "", "2026-02-07T00:00:00Z", &["2026-02-13 00:00:00 +0000"]);
    check("0 0 13 * *", "", "2026-02-07T00:00:00Z", &["2026-02-13 00:00:00 +0000"]);
    // A step makes a field one that decides.
    check(
        "0 0 */10 * fri",
        "",
        "2026-02-07T00:00:00Z",
        &["2026-02-11 00:00:00 +0000", "2026-02-13 00:00:00 +0000"],
    );
}

#[test]
fn what_never_happens_is_not_waited_for() {
    check_never("0 0 30 2 *");
    check_never("0 0 31 4,6,9,11 *");
    check_never(", * * * *");
    // Between these two leap days are eight years.
    let schedule = Schedule::parse("0 0 29 2 *").unwrap();
    let time = "2096-03-01T00:00:00Z".parse().unwrap();
    assert_eq!(schedule.next_after(time, &TimeZone::UTC), None);
}

#[test]
fn what_the_clock_skips_does_not_happen_that_day() {
    // New York, 8 March 2026: 01:59 is followed by 03:00.
    check("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", &["2026-03-09 02:30:00 -0400"]);
    check(
        "0 * * * *",
        "America/New_York",
        "2026-03-08T06:00:00Z",
        &["2026-03-08 03:00:00 -0400", "2026-03-08 04:00:00 -0400"],
    );
}

#[test]
fn what_the_clock_shows_twice_happens_twice() {
    // New York, 1 November 2026: 01:59 is followed by 01:00.
    check(
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T04:00:00Z",
        &["2026-11-01 01:30:00 -0400", "2026-11-01 01:30:00 -0500", "2026-11-02 01:30:00 -0500"],
    );
}

#[test]
fn a_day_without_a_midnight_is_a_day() {
    // Cairo, 24 April 2026: 23:59 is followed by 01:00.
    check("0 12 24 4 *", "Africa/Cairo", "2026-04-01T00:00:00Z", &["2026-04-24 12:00:00 +0300"]);
    check("0 0 24,25 4 *", "Africa/Cairo", "2026-04-01T00:00:00Z", &["2026-04-25 00:00:00 +0300"]);
    check(
        "0 1 24 4 *",
        "Africa/Cairo",
        "2026-04-01T00:00:00Z",
        &["2026-04-24 01:00:00 +0300", "2027-04-24 01:00:00 +0200"],
    );
}

#[test]
fn a_clock_may_jump_by_half_an_hour() {
    // Lord Howe, 4 October 2026: 01:59 is followed by 02:30; 5 April: 01:59 by 01:30.
    check(
        "0,30 2,3 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T14:00:00Z",
        &["2026-10-04 02:30:00 +1100", "2026-10-04 03:00:00 +1100"],
    );
    check(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T13:00:00Z",
        &["2026-04-05 01:45:00 +1100", "2026-04-05 01:45:00 +1030"],
    );
}

proptest! {
    #[test]
    fn no_text_is_too_much(text in ".{0,40}") {
        let _ = Schedule::parse(&text);
    }

    #[test]
    fn time_goes_on(
        text in "([0-9*?,/-]{1,4} ){4}[0-9*?,/-]{1,4}|@every [0-9.]{1,4}[hms]",
        seconds in -377_705_023_201..253_402_207_200_i64,
    ) {
        let Ok(schedule) = Schedule::parse(&text) else { return Ok(()) };
        let time = Timestamp::from_second(seconds).unwrap();
        if let Some(next) = schedule.next_after(time, &find_zone("Africa/Cairo").unwrap()) {
            prop_assert!(next > time);
        }
    }

    /// What is found fits, and nothing before it does.
    #[test]
    fn nothing_that_fits_is_left_out(
        minute in 0..60_i8,
        hour in 0..24_i8,
        start in 1_700_000_000..1_800_000_000_i64,
        zone in proptest::sample::select(vec!["America/New_York", "Africa/Cairo", "Australia/Lord_Howe", "UTC"]),
    ) {
        let schedule = Schedule::parse(&format!("{minute} {hour} * * *")).unwrap();
        let zone = find_zone(zone).unwrap();
        let start = Timestamp::from_second(start).unwrap();
        let next = schedule.next_after(start, &zone).unwrap();
        let fits = |it: i64| {
            let clock = zone.to_datetime(Timestamp::from_second(it).unwrap());
            clock.minute() == minute && clock.hour() == hour && clock.second() == 0
        };
        // Clocks of these zones differ by whole minutes.
        let minutes = (start.as_second() / 60 * 60 + 60..).step_by(60);
        let first = minutes.into_iter().find(|it| fits(*it)).unwrap();
        prop_assert_eq!(next.as_second(), first);
    }
}
