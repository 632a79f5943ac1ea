//! Manifests, indexes, configs and names of images.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| images::garbage::documents(bytes));
