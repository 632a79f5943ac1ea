//! YAML, and what becomes of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::yaml_body(bytes));
