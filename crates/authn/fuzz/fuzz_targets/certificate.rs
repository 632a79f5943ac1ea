//! A client's certificate.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| authn::pki::garbage::certificate(bytes));
