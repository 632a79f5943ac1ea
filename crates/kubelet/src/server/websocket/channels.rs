//! Several streams over one WebSocket: the first byte of each message says which. In
//! `v5.channel.k8s.io` a message of 255 and a channel ends that channel.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_websockets::{CloseCode, Error, Message};

use super::Socket;
use crate::server::chunk::Chunk;

const CLOSE: u8 = 255;
/// Messages of one channel that wait for their reader.
const INPUT_QUEUE: usize = 8;
/// How long the client may take to hang up after everything was sent.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// How a message carries bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Binary,
    /// Text: a digit for the channel, then base64.
    Base64,
}

impl Coding {
    fn encode(self, channel: u8, bytes: &[u8]) -> Message {
        match self {
            Self::Binary => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(channel);
                message.put_slice(bytes);
                Message::binary(message.freeze())
            }
            Self::Base64 => {
                let mut message = char::from(b'0' + channel).to_string();
                STANDARD.encode_string(bytes, &mut message);
                Message::text(message)
            }
        }
    }

    /// `None`: not a message of this coding.
    fn decode(self, message: Message) -> Option<(u8, Bytes)> {
        let mut bytes = Bytes::from(message.into_payload());
        let first = *bytes.first()?;
        let rest = bytes.split_off(1);
        match self {
            Self::Binary => Some((first, rest)),
            Self::Base64 => {
                let channel = first.checked_sub(b'0')?;
                Some((channel, STANDARD.decode(&rest).ok()?.into()))
            }
        }
    }
}

/// What the client sends on one channel.
pub(crate) type Input = mpsc::Receiver<Bytes>;

/// One connection, to be run until its end.
pub(crate) struct Channels<T> {
    socket: Socket<T>,
    coding: Coding,
    closes_channels: bool,
    inputs: BTreeMap<u8, mpsc::Sender<Bytes>>,
    chunks: mpsc::Receiver<Chunk>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Channels<T> {
    /// Ends, after everything was sent, when nobody can send any more.
    pub(crate) fn new(socket: Socket<T>, coding: Coding, chunks: mpsc::Receiver<Chunk>) -> Self {
        Self { socket, coding, closes_channels: false, inputs: BTreeMap::new(), chunks }
    }

    /// The client may end channels one by one.
    #[must_use]
    pub(crate) fn with_closing(mut self) -> Self {
        self.closes_channels = true;
        self
    }

    /// What comes on other channels is thrown away.
    pub(crate) fn input(&mut self, channel: u8) -> Input {
        let (sender, receiver) = mpsc::channel(INPUT_QUEUE);
        self.inputs.insert(channel, sender);
        receiver
    }

    /// Until the client hangs up, or all is sent.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        // What its reader has no room for yet. Nothing more is read meanwhile: that is what holds
        // the client back.
        let mut held: Option<(mpsc::Sender<Bytes>, Bytes)> = None;
        loop {
            tokio::select! {
                biased;
                chunk = self.chunks.recv() => match chunk {
                    Some(chunk) => self.send(chunk).await?,
                    None => break,
                },
                permit = room(held.as_ref()) => {
                    if let (Some(permit), Some((_, bytes))) = (permit, held.take()) {
                        permit.send(bytes);
                    }
                    held = None;
                }
                message = self.socket.next(), if held.is_none() => match message {
                    Some(Ok(message)) => held = self.receive(message),
                    Some(Err(err)) => return Err(err),
                    None => return Ok(()),
                },
            }
        }
        self.close().await
    }

    async fn send(&mut self, chunk: Chunk) -> Result<(), Error> {
        // The end of an output is told by the end of the connection; an empty message would only
        // say that it is there.
        if chunk.is_last && chunk.bytes.is_empty() {
            return Ok(());
        }
        let channel = u8::try_from(chunk.stream).unwrap_or(CLOSE);
        self.socket.feed(self.coding.encode(channel, &chunk.bytes)).await?;
        if self.chunks.is_empty() {
            self.socket.flush().await?;
        }
        Ok(())
    }

    fn receive(&mut self, message: Message) -> Option<(mpsc::Sender<Bytes>, Bytes)> {
        if !message.is_binary() && !message.is_text() {
            return None;
        }
        let (channel, bytes) = self.coding.decode(message)?;
        if channel == CLOSE && self.closes_channels {
            self.inputs.remove(bytes.first()?);
            return None;
        }
        Some((self.inputs.get(&channel)?.clone(), bytes))
    }

    async fn close(mut self) -> Result<(), Error> {
        self.socket.send(Message::close(Some(CloseCode::NORMAL_CLOSURE), "")).await?;
        let hung_up = async { while let Some(Ok(_)) = self.socket.next().await {} };
        // A client that stays is left.
        let _ = tokio::time::timeout(CLOSE_MAX, hung_up).await;
        Ok(())
    }
}

/// A place in the queue of what is held; `None` when its reader has gone.
async fn room(held: Option<&(mpsc::Sender<Bytes>, Bytes)>) -> Option<mpsc::OwnedPermit<Bytes>> {
    match held {
        Some((queue, _)) => queue.clone().reserve_owned().await.ok(),
        None => std::future::pending().await,
    }
}
