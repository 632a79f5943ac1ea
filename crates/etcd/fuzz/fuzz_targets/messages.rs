//! The messages of a stream in any pieces, as a client and as a server reads them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| etcd::garbage::messages(bytes));
