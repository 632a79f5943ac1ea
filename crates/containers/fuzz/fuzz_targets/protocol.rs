//! A packet to or from a holder.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| containers::garbage::packet(bytes));
