//! A schedule and its time zone.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| controllers::garbage::cron(bytes));
