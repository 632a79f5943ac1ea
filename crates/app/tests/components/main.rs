//! The API server, the controller manager and the scheduler as processes of their own, with the
//! flags of their upstream counterparts, over HTTPS.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod apart;
mod control_plane;
mod delegation;
mod election;
mod flags;
mod kubeadm;
mod preparation;
mod process;
