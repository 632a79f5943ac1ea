//! An answer of a name server.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dns::garbage::answer(bytes));
