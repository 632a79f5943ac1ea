//! The bodies of frames, records of the old format, and the line of the format.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kvstore::embedded::garbage::record(bytes));
