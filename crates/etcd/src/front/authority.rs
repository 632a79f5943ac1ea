//! Lets clients in that send a URL as HTTP/2's `:authority`, as etcd's own do up to 3.4 in calls to one endpoint
//! (`etcdctl --endpoints http://… endpoint status`). h2 refuses what is no authority, rightly; etcd does not look at it.
//!
//! The first request of a connection is looked at. If its authority is a URL, the characters that no authority can have are
//! replaced by `-`, here and in later requests; the length stays, so both ends' header tables stay the same size. Any other
//! connection is passed through from then on. Bytes that make no sense are passed through too: h2 judges them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
/// Longer frames are not waited for.
const FRAME_MAX: usize = 128 << 10;
const READ: usize = 4 << 10;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// A connection whose requests may have such an authority.
pub(super) struct Lenient<S> {
    io: S,
    /// What has been read and not been passed on.
    held: BytesMut,
    /// How much of it has been looked at.
    vetted: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Preface,
    FirstRequest,
    /// The first one had to be changed.
    EveryRequest,
    PassThrough,
}

impl<S> Lenient<S> {
    pub(super) fn new(io: S) -> Self {
        Self { io, held: BytesMut::new(), vetted: 0, state: State::Preface }
    }

    fn vet(&mut self) {
        if self.state == State::Preface && self.held.len() >= PREFACE {
            self.vetted = PREFACE;
            self.state = State::FirstRequest;
        }
        while matches!(self.state, State::FirstRequest | State::EveryRequest) {
            let rest = &self.held[self.vetted..];
            let Some([a, b, c, kind, ..]) = rest.first_chunk::<FRAME_HEAD>() else {
                return;
            };
            let len = FRAME_HEAD + u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if len > FRAME_MAX {
                break;
            }
            if rest.len() < len {
                return;
            }
            if *kind == HEADERS {
                match replaced(&rest[..len]) {
                    Some(frame) => {
                        let after = self.held.split_off(self.vetted + len);
                        self.held.truncate(self.vetted);
                        self.held.extend_from_slice(&frame);
                        self.held.unsplit(after);
                        self.vetted += frame.len();
                        self.state = State::EveryRequest;
                        continue;
                    }
                    None if self.state == State::FirstRequest => break,
                    None => {}
                }
            }
            self.vetted += len;
        }
        if self.state != State::Preface {
            self.state = State::PassThrough;
            self.vetted = self.held.len();
        }
    }
}

/// The frame with another authority, if its own is a URL.
fn replaced(frame: &[u8]) -> Option<Vec<u8>> {
    let (head, payload) = frame.split_at_checked(FRAME_HEAD)?;
    let flags = *head.get(4)?;
    let mut start = 0;
    let mut end = payload.len();
    if flags & PADDED != 0 {
        end = end.checked_sub(usize::from(*payload.first()?))?;
        start += 1;
    }
    if flags & PRIORITY != 0 {
        start += 5;
    }
    let block = payload.get(start..end)?;
    let (from, to, authority) = find_authority(block)?;
    let mut changed = payload.get(..start + from)?.to_vec();
    push_string(&mut changed, &authority);
    changed.extend_from_slice(payload.get(start + to..)?);
    let len = u32::try_from(changed.len()).ok()?.to_be_bytes();
    let mut frame = len[1..].to_vec();
    frame.extend_from_slice(&head[3..]);
    frame.extend_from_slice(&changed);
    Some(frame)
}

/// Where in a block of headers the value of a literal `:authority` lies, and what it should be; `None` if there is nothing to
/// change. RFC 7541, section 6.
fn find_authority(block: &[u8]) -> Option<(usize, usize, Vec<u8>)> {
    let mut at = 0;
    loop {
        let first = *block.get(at)?;
        let (name, next) = match first {
            0x80.. => (None, integer(block, at, 7)?.1),
            0x40.. => literal(block, at, 6)?,
            0x20.. => (None, integer(block, at, 5)?.1),
            _ => literal(block, at, 4)?,
        };
        at = next;
        let Some(name) = name else { continue };
        let (len, start) = integer(block, at, 7)?;
        let value = block.get(start..start.checked_add(len)?)?;
        let from = at;
        at = start + len;
        // `:authority` is the first of the static table.
        if name == 1 {
            let is_huffman = block.get(from)? & 0x80 != 0;
            let mut value = if is_huffman { huffman(value)? } else { value.to_vec() };
            if !value.contains(&b'/') {
                return None;
            }
            value.iter_mut().filter(|it| matches!(it, b'/' | b':')).for_each(|it| *it = b'-');
            return Some((from, at, value));
        }
    }
}

/// The index of a literal's name (0 if it is spelled out), and where its value begins.
fn literal(block: &[u8], at: usize, bits: u32) -> Option<(Option<usize>, usize)> {
    let (index, next) = integer(block, at, bits)?;
    if index > 0 {
        return Some((Some(index), next));
    }
    let (len, start) = integer(block, next, 7)?;
    Some((Some(0), start.checked_add(len)?))
}

/// An integer with a prefix of so many bits, and where it ends. RFC 7541, section 5.1.
fn integer(block: &[u8], at: usize, bits: u32) -> Option<(usize, usize)> {
    let mask = (1_usize << bits) - 1;
    let mut value = usize::from(*block.get(at)?) & mask;
    if value < mask {
        return Some((value, at + 1));
    }
    for n in 0..4 {
        let byte = *block.get(at + 1 + n)?;
        value += usize::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some((value, at + 2 + n));
        }
    }
    None
}

/// A string as it is. No authority is as long as 16 KiB.
fn push_string(block: &mut Vec<u8>, text: &[u8]) {
    match text.len().checked_sub(0x7f) {
        None => block.push(text.len() as u8),
        Some(rest) => {
            block.push(0x7f);
            let mut rest = rest;
            while rest >= 0x80 {
                block.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(text);
}

/// The codes of up to eight bits, which are those of all characters of URLs: successive from the first of each length.
/// RFC 7541, appendix B.
const CODES: [(u32, u32, &[u8]); 4] = [
    (5, 0x00, b"012aceiost"),
    (6, 0x14, b" %-./3456789=A_bdfghlmnpru"),
    (7, 0x5c, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, 0xf8, b"&*,;XZ"),
];

fn huffman(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let (mut code, mut len) = (0, 0);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |n| u32::from(byte >> n & 1))) {
        code = code << 1 | bit;
        len += 1;
        let known = CODES.iter().find(|it| it.0 == len);
        let symbol = known.and_then(|(_, first, symbols)| {
            symbols.get(usize::try_from(u32::checked_sub(code, *first)?).ok()?)
        });
        match symbol {
            Some(symbol) => {
                text.push(*symbol);
                (code, len) = (0, 0);
            }
            None if len >= 8 => return None,
            None => {}
        }
    }
    Some(text)
}

impl<S: AsyncRead + Unpin> AsyncRead for Lenient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.vetted > 0 {
                let len = self.vetted.min(buffer.remaining());
                buffer.put_slice(&self.held[..len]);
                self.held.advance(len);
                self.vetted -= len;
                return Poll::Ready(Ok(()));
            }
            if self.state == State::PassThrough {
                return Pin::new(&mut self.io).poll_read(cx, buffer);
            }
            let mut piece = [0; READ];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                self.state = State::PassThrough;
                self.vetted = self.held.len();
                continue;
            }
            self.held.extend_from_slice(piece.filled());
            self.vet();
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lenient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::{FRAME_HEAD, Lenient, PREFACE, find_authority};

    #[test]
    fn urls_become_authorities_of_the_same_length() {
        let check = |block: &[u8], expected: Option<&str>| {
            let found = find_authority(block).map(|it| String::from_utf8(it.2).unwrap());
            assert_eq!(found.as_deref(), expected);
        };
        // :method POST, :scheme http, a literal authority.
        check(b"\x83\x86\x41\x0ahttp://a:1", Some("http---a-1"));
        check(b"\x83\x86\x41\x0ahttp-a.b:1", None);
        check(b"\x83\x86\x01\x0ahttp://a:1", Some("http---a-1"));
        // After a literal with a new name, and a change of the table's size.
        check(b"\x3f\xe1\x1f\x40\x01a\x01b\x41\x08http://a", Some("http---a"));
        // RFC 7541, C.4.1: www.example.com.
        check(b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", None);
        // `http://` by Huffman's code.
        check(b"\x41\x86\x9d\x29\xae\xe3\x0c\x7f", Some("http---"));
        check(b"", None);
        check(b"\x41\xff\xff\xff\xff\xff\xff", None);
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, 4, 0, 0, 0, 1]);
        assert_eq!(frame.len(), FRAME_HEAD);
        frame.extend_from_slice(payload);
        frame
    }

    async fn through(input: &[u8], cut: usize) -> Vec<u8> {
        let (mut ours, theirs) = tokio::io::duplex(cut);
        let write = async {
            tokio::io::AsyncWriteExt::write_all(&mut ours, input).await.unwrap();
            drop(ours);
        };
        let mut output = Vec::new();
        let mut lenient = Lenient::new(theirs);
        tokio::join!(write, async { lenient.read_to_end(&mut output).await.unwrap() });
        output
    }

    #[tokio::test]
    async fn only_the_authority_is_changed_however_it_is_cut() {
        let url = b"\x83\x41\x0ahttp://a:1\x86";
        let changed = b"\x83\x41\x0ahttp---a-1\x86";
        for cut in [1, 7, 1000] {
            let stream = |block: &[u8]| {
                let mut stream = vec![b'p'; PREFACE];
                stream.extend(frame(4, b""));
                stream.extend(frame(1, block));
                stream.extend(frame(0, b"\x41\x0ahttp://a:1"));
                stream.extend(frame(1, block));
                stream
            };
            assert_eq!(through(&stream(url), cut).await, stream(changed));
            assert_eq!(through(&stream(changed), cut).await, stream(changed));
        }
    }

    proptest! {
        #[test]
        fn garbage_passes_or_is_left_alone(
            input in prop::collection::vec(prop_oneof![0u8..10, any::<u8>()], 0..300),
        ) {
            let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let output = tokio.block_on(through(&input, 64));
            prop_assert!(output.len() >= input.len());
        }
    }
}
