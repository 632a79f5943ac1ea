//! A patch of any kind to a Deployment.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::patches(bytes));
