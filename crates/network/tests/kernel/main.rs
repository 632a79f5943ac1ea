//! The pod network on a real kernel. Each test has a node, pods and, where it needs one, a world
//! outside, all of them network namespaces of its own.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stdout, reason = "skipped tests and measurements are told")]

mod attachment;
mod both_families;
mod clusters;
mod contract;
mod firewalls;
mod host_ports;
mod links;
mod mending;
mod nodes;
mod overlaps;
mod paths;
mod places;
mod probes;
mod restart;
mod routed;
mod router_advertisements;
mod speed;
mod switch;
mod tunnels;
mod udp;
mod uplinks;
