//! Right calls of every method with messages that make no sense.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| etcd::garbage::calls(bytes));
