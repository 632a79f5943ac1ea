//! A number as an expression that means something, on random values.

#![no_main]

libfuzzer_sys::fuzz_target!(|seed: u64| cel::garbage::typed_expression(seed));
