//! Bytes on their way to a client: every protocol here carries several numbered streams over one
//! connection. One bounded queue per connection, so that a slow client stops its producers and
//! nothing piles up.

use bytes::Bytes;
use tokio::sync::mpsc;

/// How many chunks wait for the connection.
const QUEUE: usize = 8;
/// What is read at once from a command, a pod's port or a file.
pub const SIZE: usize = 32 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    pub stream: u32,
    pub bytes: Bytes,
    /// The stream ends with it.
    pub is_last: bool,
}

/// The client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The sending end of one stream.
#[derive(Clone, Debug)]
pub struct Output {
    stream: u32,
    queue: mpsc::Sender<Chunk>,
}

pub fn queue() -> (mpsc::Sender<Chunk>, mpsc::Receiver<Chunk>) {
    mpsc::channel(QUEUE)
}

impl Output {
    pub fn new(stream: u32, queue: mpsc::Sender<Chunk>) -> Self {
        Self { stream, queue }
    }

    pub async fn send(&self, bytes: Bytes) -> Result<(), Gone> {
        self.put(bytes, false).await
    }

    /// Sends these bytes and ends the stream. Calling it again is harmless to every client, but
    /// useless.
    pub async fn finish(&self, bytes: Bytes) -> Result<(), Gone> {
        self.put(bytes, true).await
    }

    async fn put(&self, bytes: Bytes, is_last: bool) -> Result<(), Gone> {
        self.queue.send(Chunk { stream: self.stream, bytes, is_last }).await.map_err(|_| Gone)
    }
}
