//! One frame, the walk over a segment, and the search behind a bad frame.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kvstore::embedded::garbage::frame(bytes));
