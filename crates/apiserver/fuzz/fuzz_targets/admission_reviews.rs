//! What an admission webhook answers with.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::admission_reviews(bytes));
