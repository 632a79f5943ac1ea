//! Logs, exec, attach and port-forward from a client through the API server to a kubelet whose
//! containers are processes of this test, over TLS on loopback: by a real kubectl, and by hand for
//! the protocols that it no longer speaks.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod by_hand;
mod host;
mod kubectl;
mod paths;
mod site;
