//! The bodies of frames from any bytes: refused, or rendered to the same bytes again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kvstore::embedded::check_parsers(bytes));
