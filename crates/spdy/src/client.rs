//! The client's side of one connection: streams are opened here, and what the server sends comes out
//! of their queues.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::chunk::{self, Chunk, Gone, Output};
use super::frame::{self, Control, Head};
use super::headers::{Decoder, Encoder, Headers};
use super::session::{CLOSE_MAX, CONTROL_QUEUE, INPUT_QUEUE, Open, Stream, write};

/// Those whose server half is open. Its lock is held for moments only.
type Streams = Arc<Mutex<BTreeMap<u32, Open>>>;

pub struct Client<T> {
    connection: T,
    streams: Streams,
    chunks: mpsc::Receiver<Chunk>,
    control_in: mpsc::Sender<(u32, Bytes)>,
    control: mpsc::Receiver<(u32, Bytes)>,
}

/// Opens streams. When it and all outputs are dropped, everything is sent and the connection
/// closed.
pub struct Opener {
    /// Headers are compressed in the order in which they are sent.
    heads: tokio::sync::Mutex<Heads>,
    streams: Streams,
    chunks: mpsc::Sender<Chunk>,
}

struct Heads {
    /// A client's streams are odd.
    next: u32,
    encoder: Encoder,
    control: mpsc::Sender<(u32, Bytes)>,
}

pub fn client<T: AsyncRead + AsyncWrite + Send>(connection: T) -> (Client<T>, Opener) {
    let (chunks_in, chunks) = chunk::queue();
    let (control_in, control) = mpsc::channel(CONTROL_QUEUE);
    let streams = Streams::default();
    let heads = Heads { next: 1, encoder: Encoder::new(), control: control_in.clone() };
    let opener = Opener { heads: heads.into(), streams: streams.clone(), chunks: chunks_in };
    (Client { connection, streams, chunks, control_in, control }, opener)
}

impl Opener {
    pub async fn open(&self, headers: Headers) -> Result<Stream, Gone> {
        let (input, receiver) = mpsc::channel(INPUT_QUEUE);
        let reset = CancellationToken::new();
        let mut heads = self.heads.lock().await;
        let id = heads.next;
        heads.next += 2;
        self.streams().insert(id, Open { input, reset: reset.clone() });
        let block = heads.encoder.encode(&headers);
        let sent = heads.control.send((id, frame::open(id, false, &block))).await;
        drop(heads);
        sent.map_err(|_| Gone)?;
        let output = Output::new(id, self.chunks.clone());
        Ok(Stream { headers, input: receiver, output, reset })
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Open>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AsyncRead + AsyncWrite + Send> Client<T> {
    /// Until the server hangs up, or all is sent and it has had its time to answer.
    pub async fn run(self) -> Result<(), Error> {
        let (reader, writer) = tokio::io::split(self.connection);
        let reading = Reading {
            reader,
            decoder: Decoder::new(),
            streams: self.streams.clone(),
            control: self.control_in,
        };
        let mut reading = std::pin::pin!(reading.run());
        let ended = tokio::select! {
            biased;
            ended = &mut reading => ended,
            ended = write(writer, self.chunks, self.control) => match ended {
                Ok(()) => match tokio::time::timeout(CLOSE_MAX, reading).await {
                    Ok(Err(Error::Read(_)) | Ok(())) | Err(_) => Ok(()),
                    Ok(Err(err)) => Err(err),
                },
                Err(err) => Err(err),
            },
        };
        // Whoever reads them sees their ends.
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).clear();
        ended
    }
}

struct Reading<T> {
    reader: ReadHalf<T>,
    decoder: Decoder,
    streams: Streams,
    control: mpsc::Sender<(u32, Bytes)>,
}

impl<T: AsyncRead> Reading<T> {
    async fn run(mut self) -> Result<(), Error> {
        loop {
            let mut head = [0; frame::HEAD];
            if self.reader.read(&mut head[..1]).await.map_err(Error::Read)? == 0 {
                return Ok(());
            }
            self.reader.read_exact(&mut head[1..]).await.map_err(Error::Read)?;
            match Head::parse(head)? {
                Head::Data { stream, is_last, length } => {
                    self.data(stream, length).await?;
                    if is_last {
                        self.end(stream);
                    }
                }
                Head::Control { kind, is_last, length } => {
                    let mut payload = BytesMut::zeroed(length);
                    self.reader.read_exact(&mut payload).await.map_err(Error::Read)?;
                    self.control(Control::parse(kind, is_last, &payload.freeze())?).await?;
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
            let input = self.streams().get(&stream).map(|it| it.input.clone());
            if let Some(input) = input {
                // Whoever read it has gone: the rest is thrown away.
                let _ = input.send(piece.freeze()).await;
            }
        }
        Ok(())
    }

    async fn control(&mut self, control: Control) -> Result<(), Error> {
        match control {
            Control::Reply { block, .. } => {
                self.decoder.decode(&block)?;
            }
            Control::Headers { stream, is_last, block } => {
                self.decoder.decode(&block)?;
                if is_last {
                    self.end(stream);
                }
            }
            Control::Reset { stream } => {
                if let Some(open) = self.end(stream) {
                    open.reset.cancel();
                }
            }
            // Ours would be odd, and we send none.
            Control::Ping { id } if id % 2 == 0 => {
                let _ = self.control.send((0, frame::ping(id))).await;
            }
            // A server opens none.
            Control::Open { block, .. } => {
                self.decoder.decode(&block)?;
            }
            Control::Ping { .. } | Control::GoAway | Control::Ignored => {}
        }
        Ok(())
    }

    fn end(&self, stream: u32) -> Option<Open> {
        self.streams().remove(&stream)
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Open>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
