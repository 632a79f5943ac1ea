//! What a conversion webhook answers with.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::conversion_reviews(bytes));
