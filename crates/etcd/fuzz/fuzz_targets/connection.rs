//! Any bytes as a connection to the front.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| etcd::garbage::connection(bytes));
