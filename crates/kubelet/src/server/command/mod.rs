//! A command in a container, or a running container, with a client at its streams. What comes from
//! and goes to the client is the same for every protocol: see `over_websocket` and `over_spdy`.

mod options;
mod over_spdy;
mod over_websocket;
mod run;
mod status;

use bytes::Bytes;
use tokio::sync::mpsc;

pub(crate) use options::Options;
pub(crate) use over_spdy::PROTOCOLS as SPDY_PROTOCOLS;
pub(crate) use over_websocket::{Protocol, protocol};
pub(crate) use run::Command;
pub(crate) use status::Form;

/// The client's ends of the streams that it asked for.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) stdin: Option<mpsc::Receiver<Bytes>>,
    pub(crate) stdout: Option<super::chunk::Output>,
    pub(crate) stderr: Option<super::chunk::Output>,
    /// Sizes of the terminal, as JSON values one after the other.
    pub(crate) resize: Option<mpsc::Receiver<Bytes>>,
    /// How it ended.
    pub(crate) error: super::chunk::Output,
    pub(crate) form: Form,
}
