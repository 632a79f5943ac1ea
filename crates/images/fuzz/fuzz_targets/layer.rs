//! A layer, unpacked.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let directory = tempfile::tempdir().expect("there is room");
    images::garbage::layer(bytes, directory.path());
});
