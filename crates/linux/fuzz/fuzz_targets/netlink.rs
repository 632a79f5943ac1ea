//! A datagram of a dump.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| linux::netlink::garbage::dump(bytes));
