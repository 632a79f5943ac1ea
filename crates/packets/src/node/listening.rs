//! What the worker complains about, and that it has ended.

use std::io;

use linux::seqpacket::Connection;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Error, Worker, expect_done};
use crate::Place;
use crate::protocol::{Part, Reply, Request, decode};
use crate::watched::watched;

#[derive(Debug)]
pub struct Listening(AsyncFd<Connection>);

impl Listening {
    /// To one that is there; `None`: there is none.
    pub fn start(place: &Place, part: Part) -> Result<Option<Self>, Error> {
        let Some(mut worker) = Worker::find(place)? else { return Ok(None) };
        worker.ask(&Request::Listen(part)).and_then(expect_done)?;
        let listen = || {
            worker.0.set_nonblocking()?;
            watched(worker.0, Interest::READABLE)
        };
        listen().map(|it| Some(Self(it))).map_err(Error::Speak)
    }

    /// The next complaint; `None`: the worker has ended. May be dropped and called again at any
    /// time.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let mut ready = self.0.readable().await.ok()?;
            match self.0.get_ref().receive() {
                Ok(Some(message)) => {
                    if let Ok(Reply::Complaint(words)) = decode(&message.bytes) {
                        return Some(words);
                    }
                }
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}
