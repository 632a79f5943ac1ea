//! A text as an expression: compiled, estimated and evaluated within a budget.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| cel::garbage::expression(text));
