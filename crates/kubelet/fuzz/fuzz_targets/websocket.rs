//! A WebSocket connection with channels.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kubelet::server::garbage::websocket(bytes));
