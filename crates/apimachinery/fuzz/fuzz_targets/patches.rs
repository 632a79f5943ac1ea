//! Every kind of patch, and server-side apply.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apimachinery::garbage::patches(bytes));
