//! All that a peer sends.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bgp::garbage::session(bytes));
