//! One connection: streams that the client opens come out of a queue, what is sent to them goes
//! into another.
//!
//! A stream whose reader is slow stops the whole connection, as it does upstream: there are no
//! windows to stop it alone.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::frame::{self, Control, Head};
use super::headers::{Decoder, Encoder, Headers};
use crate::chunk::{self, Chunk, Output};

/// Streams that are open at once; port-forward needs two for each connection.
const STREAMS_MAX: usize = 512;
/// Pieces of one stream that wait for their reader.
pub(crate) const INPUT_QUEUE: usize = 8;
/// Answers to the client's control frames that wait to be written.
pub(crate) const CONTROL_QUEUE: usize = 16;
/// How long the client may take to hang up after everything was sent.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(5);

/// A stream that the client opened, as one side has it.
#[derive(Debug)]
pub struct Stream {
    pub headers: Headers,
    /// Ends when the other side ends its half.
    pub input: mpsc::Receiver<Bytes>,
    pub output: Output,
    /// The other side wants nothing more of this stream.
    pub reset: CancellationToken,
}

pub struct Session<T> {
    connection: T,
    opened: mpsc::Sender<Stream>,
    /// Weak: the session is over when nobody can send any more.
    chunks_in: mpsc::WeakSender<Chunk>,
    chunks: mpsc::Receiver<Chunk>,
}

/// The session to run, the streams that clients open, and what keeps it going: when it and all
/// outputs are dropped, everything is sent and the connection closed.
pub fn session<T: AsyncRead + AsyncWrite + Send>(
    connection: T,
) -> (Session<T>, mpsc::Receiver<Stream>, mpsc::Sender<Chunk>) {
    let (keep, chunks) = chunk::queue();
    let (opened, streams) = mpsc::channel(INPUT_QUEUE);
    (Session { connection, opened, chunks_in: keep.downgrade(), chunks }, streams, keep)
}

impl<T: AsyncRead + AsyncWrite + Send> Session<T> {
    /// Until the client hangs up, or all is sent.
    pub async fn run(self) -> Result<(), Error> {
        let (reader, writer) = tokio::io::split(self.connection);
        let (control_in, control) = mpsc::channel(CONTROL_QUEUE);
        let reading = Reading {
            reader,
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            streams: BTreeMap::new(),
            opened: self.opened,
            chunks: self.chunks_in,
            control: control_in,
        };
        let mut reading = std::pin::pin!(reading.run());
        tokio::select! {
            biased;
            ended = &mut reading => return ended,
            ended = write(writer, self.chunks, control) => ended?,
        }
        // Hanging up while bytes come in would make the kernel throw away what the client has not
        // read yet.
        match tokio::time::timeout(CLOSE_MAX, reading).await {
            Ok(Err(Error::Read(_)) | Ok(())) | Err(_) => Ok(()),
            Ok(Err(err)) => Err(err),
        }
    }
}

pub(crate) async fn write<T: AsyncWrite>(
    mut writer: WriteHalf<T>,
    mut chunks: mpsc::Receiver<Chunk>,
    mut control: mpsc::Receiver<(u32, Bytes)>,
) -> Result<(), Error> {
    let mut last_stream = 0;
    loop {
        tokio::select! {
            biased;
            Some((stream, frame)) = control.recv() => {
                last_stream = last_stream.max(stream);
                writer.write_all(&frame).await.map_err(Error::Write)?;
            }
            chunk = chunks.recv() => {
                let Some(Chunk { stream, bytes, is_last }) = chunk else { break };
                let head = frame::data(stream, is_last, bytes.len());
                writer.write_all(&head).await.map_err(Error::Write)?;
                writer.write_all(&bytes).await.map_err(Error::Write)?;
            }
        }
        if chunks.is_empty() && control.is_empty() {
            writer.flush().await.map_err(Error::Write)?;
        }
    }
    writer.write_all(&frame::go_away(last_stream)).await.map_err(Error::Write)?;
    writer.shutdown().await.map_err(Error::Write)
}

pub(crate) struct Open {
    pub(crate) input: mpsc::Sender<Bytes>,
    pub(crate) reset: CancellationToken,
}

struct Reading<T> {
    reader: ReadHalf<T>,
    decoder: Decoder,
    encoder: Encoder,
    /// Those whose client half is open.
    streams: BTreeMap<u32, Open>,
    opened: mpsc::Sender<Stream>,
    chunks: mpsc::WeakSender<Chunk>,
    control: mpsc::Sender<(u32, Bytes)>,
}

impl<T: AsyncRead> Reading<T> {
    async fn run(mut self) -> Result<(), Error> {
        loop {
            let mut head = [0; frame::HEAD];
            // Clients hang up between frames.
            if self.reader.read(&mut head[..1]).await.map_err(Error::Read)? == 0 {
                return Ok(());
            }
            self.reader.read_exact(&mut head[1..]).await.map_err(Error::Read)?;
            match Head::parse(head)? {
                Head::Data { stream, is_last, length } => {
                    self.data(stream, length).await?;
                    if is_last {
                        self.streams.remove(&stream);
                    }
                }
                Head::Control { kind, is_last, length } => {
                    let mut payload = BytesMut::zeroed(length);
                    self.reader.read_exact(&mut payload).await.map_err(Error::Read)?;
                    let control = Control::parse(kind, is_last, &payload.freeze())?;
                    self.control(control).await?;
                }
            }
        }
    }

    async fn data(&mut self, stream: u32, length: usize) -> Result<(), Error> {
        let mut left = length;
        while left > 0 {
            let mut piece = BytesMut::zeroed(left.min(chunk::SIZE));
            self.reader.read_exact(&mut piece).await.map_err(Error::Read)?;
            left -= piece.len();
            if let Some(open) = self.streams.get(&stream) {
                // Whoever read it has gone: the rest is thrown away.
                let _ = open.input.send(piece.freeze()).await;
            }
        }
        Ok(())
    }

    async fn control(&mut self, control: Control) -> Result<(), Error> {
        match control {
            Control::Open { stream, is_last, block } => self.open(stream, is_last, &block).await?,
            Control::Headers { stream, is_last, block } => {
                // Nothing in them counts, but the compression goes on through them.
                self.decoder.decode(&block)?;
                if is_last {
                    self.streams.remove(&stream);
                }
            }
            Control::Reply { block, .. } => {
                self.decoder.decode(&block)?;
            }
            Control::Reset { stream } => {
                if let Some(open) = self.streams.remove(&stream) {
                    open.reset.cancel();
                }
            }
            // Ours would be even, and we send none.
            Control::Ping { id } if id % 2 == 1 => self.answer(0, frame::ping(id)).await,
            // The client hangs up when it is done; streams that are open go on until then.
            Control::Ping { .. } | Control::GoAway | Control::Ignored => {}
        }
        Ok(())
    }

    async fn open(&mut self, id: u32, is_last: bool, block: &[u8]) -> Result<(), Error> {
        let headers = self.decoder.decode(block)?;
        if self.streams.len() >= STREAMS_MAX {
            return Err(Error::TooManyStreams(STREAMS_MAX));
        }
        let Some(chunks) = self.chunks.upgrade() else { return Ok(()) };
        let (input, receiver) = mpsc::channel(INPUT_QUEUE);
        let reset = CancellationToken::new();
        let stream = Stream {
            headers,
            input: receiver,
            output: Output::new(id, chunks),
            reset: reset.clone(),
        };
        if !is_last {
            self.streams.insert(id, Open { input, reset });
        }
        let block = self.encoder.encode(&Headers::new());
        self.answer(id, frame::reply(id, &block)).await;
        // Nobody takes streams any more: it ends with the session.
        let _ = self.opened.send(stream).await;
        Ok(())
    }

    async fn answer(&mut self, stream: u32, frame: Bytes) {
        // The writer has ended: so will this session.
        let _ = self.control.send((stream, frame)).await;
    }
}
