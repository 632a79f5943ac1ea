//! The five bytes before each gRPC message, and messages out of whatever pieces HTTP/2 delivers.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message;

use super::{Code, Status};

const PREFIX: usize = 5;

/// A message with its prefix.
pub fn encode(message: &impl Message) -> Bytes {
    let len = message.encoded_len();
    let mut buffer = BytesMut::with_capacity(PREFIX + len);
    buffer.put_u8(0);
    buffer.put_u32(u32::try_from(len).expect("messages are far below 4 GiB"));
    message.encode_raw(&mut buffer);
    buffer.freeze()
}

/// Cuts a stream of pieces into messages. Holds at most one message and one piece.
pub struct Decoder {
    /// What is left of the last piece while no message spans pieces: taken from it without copying.
    whole: Bytes,
    /// The beginning of a message that spans pieces.
    partial: BytesMut,
    message_max: usize,
}

impl Decoder {
    pub fn new(message_max: usize) -> Self {
        Self { whole: Bytes::new(), partial: BytesMut::new(), message_max }
    }

    /// All messages must be taken before the next piece is given.
    pub fn push(&mut self, piece: Bytes) {
        if self.partial.is_empty() && self.whole.is_empty() {
            self.whole = piece;
        } else {
            self.partial.extend_from_slice(&self.whole);
            self.whole = Bytes::new();
            self.partial.extend_from_slice(&piece);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.partial.is_empty()
    }

    /// The next whole message, without its prefix.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, Status> {
        let held = if self.partial.is_empty() { &self.whole[..] } else { &self.partial[..] };
        let Some(len) = self.message_len(held)? else {
            return Ok(None);
        };
        if held.len() < PREFIX + len {
            if self.partial.is_empty() {
                self.partial.reserve(PREFIX + len);
            }
            return Ok(None);
        }
        if self.partial.is_empty() {
            self.whole.advance(PREFIX);
            return Ok(Some(self.whole.split_to(len)));
        }
        self.partial.advance(PREFIX);
        let message = self.partial.split_to(len).freeze();
        // What follows is the end of one piece: small, and messages in it need no more copying.
        self.whole = std::mem::take(&mut self.partial).freeze();
        Ok(Some(message))
    }

    fn message_len(&self, held: &[u8]) -> Result<Option<usize>, Status> {
        let Some((prefix, _)) = held.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let [flag, a, b, c, d] = *prefix;
        if flag != 0 {
            let text = match flag {
                1 => "grpc: compressed messages are not supported",
                _ => "grpc: received unexpected payload format",
            };
            return Err(Status::new(Code::Unimplemented, text));
        }
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if len > self.message_max {
            let max = self.message_max;
            let text = format!("grpc: received message larger than max ({len} vs. {max})");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        Ok(Some(len))
    }
}

/// A message out of the bytes of a frame. Its byte fields share them.
pub fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    M::decode(bytes).map_err(|err| {
        Status::new(Code::Internal, format!("grpc: error unmarshalling request: {err}"))
    })
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use proptest::prelude::*;

    use super::{Decoder, encode};
    #[derive(Clone, PartialEq, prost::Message)]
    struct PutRequest {
        #[prost(bytes = "bytes", tag = "1")]
        key: Bytes,
        #[prost(bytes = "bytes", tag = "2")]
        value: Bytes,
    }

    fn put(value: Vec<u8>) -> PutRequest {
        PutRequest { key: "k".into(), value: value.into() }
    }

    proptest! {
        #[test]
        fn messages_come_out_however_they_are_cut(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
            cuts in prop::collection::vec(1usize..200, 1..20),
        ) {
            let mut stream = BytesMut::new();
            for value in &values {
                stream.extend_from_slice(&encode(&put(value.clone())));
            }
            let mut rest = stream.freeze();
            let mut decoder = Decoder::new(1000);
            let mut seen = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                decoder.push(rest.split_to((*cut).min(rest.len())));
                while let Some(message) = decoder.next_message().unwrap() {
                    seen.push(super::decode::<PutRequest>(message).unwrap().value.to_vec());
                }
            }
            prop_assert!(decoder.is_empty());
            prop_assert_eq!(seen, values);
        }

        #[test]
        fn garbage_is_refused_or_waits_for_more_within_the_bound(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20),
        ) {
            let mut decoder = Decoder::new(32);
            for piece in pieces {
                decoder.push(Bytes::from(piece));
                loop {
                    match decoder.next_message() {
                        Ok(Some(message)) => { let _ = super::decode::<PutRequest>(message); }
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                prop_assert!(decoder.partial.len() + decoder.whole.len() <= 32 + 64 + 5);
            }
        }
    }
}
