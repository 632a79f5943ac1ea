//! NetworkPolicies on a real kernel: two nodes with pods, packets between them, each in a network
//! namespace of its own.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stdout, reason = "skipped tests are told")]

mod attack;
mod connections;
mod first_packet;
mod following;
mod matrix;
mod places;
mod probes;
