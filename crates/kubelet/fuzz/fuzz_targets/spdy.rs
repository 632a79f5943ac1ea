//! A SPDY connection, also through a tunnel.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kubelet::server::garbage::spdy(bytes));
