//! The path of a request to the kubelet.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kubelet::server::garbage::path(bytes));
