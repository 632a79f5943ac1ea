//! What `xebec` and a holder say to each other: one JSON message per packet, descriptors beside it.
//!
//! A holder outlives the `xebec` that started it, so both sides live with another version: fields
//! that are not known are skipped, fields may be added with a default, and a request that is not
//! known is answered by name.

pub mod garbage;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::records::Exit;

/// Raised when a request is added, or a field that must not be passed over.
pub(crate) const VERSION: u32 = 3;
/// From which on a holder knows a container's target.
pub(crate) const VERSION_OF_TARGETS: u32 = 2;
/// From which on a holder lets a program that is sent set up.
pub(crate) const VERSION_OF_HANDOVER: u32 = 3;
/// Of one packet, without descriptors.
pub(crate) const MESSAGE_MAX: usize = linux::seqpacket::MESSAGE_MAX;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Answered when the namespaces are there. From then on this connection is told every event.
    Hello {
        version: u32,
    },
    State,
    /// Its directory has `container.json` and `config.json`. Answered when the program was
    /// executed. Descriptors with `handover`: the program that sets it up, and its instructions.
    Start {
        container: String,
        #[serde(default, skip_serializing_if = "is_not")]
        handover: bool,
    },
    Signal {
        container: String,
        signal: i32,
    },
    /// SIGKILL to everything in it.
    KillAll {
        container: String,
    },
    /// The container was removed, or is not wanted any more: forget how it ended.
    Forget {
        container: String,
    },
    /// Descriptors: those of stdin, stdout and stderr that are true, in this order; none with a
    /// terminal, whose master comes back with the answer. The exit code is told on the same
    /// connection, and closing it kills the command. Two more with `handover`, as for `Start`.
    Exec {
        container: String,
        command: Vec<String>,
        streams: Streams,
        #[serde(default, skip_serializing_if = "is_not")]
        handover: bool,
    },
    /// Descriptors: those of stdout and stderr that are true. The answer brings the container's
    /// stdin or its terminal's master if `stdin` is true. Closing the connection detaches.
    Attach {
        container: String,
        streams: Streams,
    },
    Resize {
        container: String,
        width: u16,
        height: u16,
    },
    CloseStdin {
        container: String,
    },
    /// To 127.0.0.1 in the pod's network; the answer brings the connected socket.
    Connect {
        port: u16,
    },
    /// Kills every container, then ends the holder.
    Shutdown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Streams {
    pub(crate) tty: bool,
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Welcome { version: u32, pid: i32 },
    State { containers: Vec<ContainerStatus> },
    Started { at: Timestamp, pid: i32 },
    Done,
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this holder does not know the request: {0}")]
    UnknownRequest(String),
    #[error("it is not known here")]
    NoContainer,
    #[error("it is not running")]
    NotRunning,
    #[error("it was started before")]
    StartedBefore,
    #[error("there are {0} of them already")]
    TooMany(usize),
    #[error("{0}")]
    CouldNotStart(String),
    #[error("{0}")]
    Kernel(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerStatus {
    pub(crate) container: String,
    pub(crate) life: Life,
}

/// What a holder knows of one container. One that it was never told of is not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Life {
    Starting,
    Running { started: Timestamp },
    Exited(Exit),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// Its program was executed. Told before the request to start it is answered.
    ContainerStarted { container: String, at: Timestamp },
    /// Everything it wrote is in its log.
    ContainerExited {
        container: String,
        exit: Exit,
        /// Writes to its log that the disk did not take.
        #[serde(default)]
        log_writes_lost: u64,
    },
    /// Of the exec'd command or the container attached to on this connection.
    CommandExited { code: i32 },
}

/// What comes from a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    Reply { id: u64, reply: Reply },
    Event(Event),
}

/// Requests of those who know nothing of it keep their form.
fn is_not(it: &bool) -> bool {
    !it
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("a message of {length} bytes is longer than {MESSAGE_MAX}")]
    TooLong { length: usize },
    #[error("reading a message")]
    Decode(#[source] serde_json::Error),
    #[error("writing a message")]
    Encode(#[source] serde_json::Error),
}

#[derive(Serialize)]
struct RequestOut<'a> {
    id: u64,
    request: &'a Request,
}

#[derive(Deserialize)]
struct RequestIn<'a> {
    id: u64,
    #[serde(borrow)]
    request: &'a RawValue,
}

pub(crate) fn encode_request(id: u64, request: &Request) -> Result<Vec<u8>, Error> {
    encode(&RequestOut { id, request })
}

/// A request of a newer `xebec` has a number to answer to, and a refusal to answer with.
pub(crate) fn decode_request(packet: &[u8]) -> Result<(u64, Result<Request, Refusal>), Error> {
    let RequestIn { id, request } = serde_json::from_slice(packet).map_err(Error::Decode)?;
    let request =
        serde_json::from_str(request.get()).map_err(|err| Refusal::UnknownRequest(err.to_string()));
    Ok((id, request))
}

pub(crate) fn encode_message(message: &Message) -> Result<Vec<u8>, Error> {
    encode(message)
}

pub(crate) fn decode_message(packet: &[u8]) -> Result<Message, Error> {
    serde_json::from_slice(packet).map_err(Error::Decode)
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let packet = serde_json::to_vec(value).map_err(Error::Encode)?;
    if packet.len() > MESSAGE_MAX {
        return Err(Error::TooLong { length: packet.len() });
    }
    Ok(packet)
}
