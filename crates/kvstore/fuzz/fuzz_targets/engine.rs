//! A whole store out of a sound log with senseless records.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kvstore::embedded::garbage::engine(bytes));
