//! A path with its parameters and selectors.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::paths(bytes));
