//! A snapshot file, as it is and with a right hash.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kvstore::embedded::garbage::snapshot(bytes));
