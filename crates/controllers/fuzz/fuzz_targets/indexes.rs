//! A list of completion indexes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| controllers::garbage::indexes(bytes));
