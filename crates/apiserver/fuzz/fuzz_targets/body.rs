//! An object in JSON, decoded, defaulted and validated.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::body(bytes));
