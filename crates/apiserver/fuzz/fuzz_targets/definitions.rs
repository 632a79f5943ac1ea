//! A schema of a CustomResourceDefinition and, on the line behind it, an object.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| apiserver::garbage::definitions(bytes));
