//! A log of several files, with right checks on senseless frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kvstore::embedded::garbage::log(bytes));
