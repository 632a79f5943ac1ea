//! Logs, exec, attach and port-forward from a client through the API server to a kubelet whose containers are processes of
//! this test, over TLS on loopback: by a real kubectl, and by hand for the protocols that it no longer speaks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_hand;
mod host;
mod kubectl;
mod site;
