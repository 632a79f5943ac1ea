//! The plan of one controller, on objects of any kind.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| controllers::garbage::plans(bytes));
