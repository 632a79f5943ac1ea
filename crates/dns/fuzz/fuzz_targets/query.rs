//! A query from a client.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dns::garbage::query(bytes));
