//! One message.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bgp::garbage::message(bytes));
