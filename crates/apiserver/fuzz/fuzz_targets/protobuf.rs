//! An object in protobuf, of any kind.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::protobuf_body(bytes));
