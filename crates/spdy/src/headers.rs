//! Name/value blocks: 32-bit counts and lengths, through one zlib stream per direction that starts
//! with a dictionary.

use std::collections::BTreeMap;

use bytes::{BufMut as _, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::Error;
use super::dictionary::dictionary;

/// Of one block, decompressed.
const BLOCK_MAX: usize = 64 * 1024;

/// By name in lower case. Several values of one name are one, divided by zero bytes.
pub type Headers = BTreeMap<String, String>;

pub(super) struct Decoder(Decompress);

impl Decoder {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Headers, Error> {
        parse(&self.inflate(block)?).ok_or(Error::Headers)
    }

    fn inflate(&mut self, mut input: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(1024);
        loop {
            if out.len() == out.capacity() {
                if out.len() >= BLOCK_MAX {
                    return Err(Error::HeadersTooLarge(BLOCK_MAX));
                }
                out.reserve(out.len());
            }
            let before = (self.0.total_in(), self.0.total_out());
            let status = match self.0.decompress_vec(input, &mut out, FlushDecompress::Sync) {
                Ok(status) => status,
                Err(err) if err.needs_dictionary().is_some() => {
                    self.0.set_dictionary(dictionary()).map_err(|_| Error::Headers)?;
                    Status::Ok
                }
                Err(_) => return Err(Error::Headers),
            };
            let read = usize::try_from(self.0.total_in() - before.0).unwrap_or(usize::MAX);
            input = input.get(read..).unwrap_or_default();
            let is_stuck = before == (self.0.total_in(), self.0.total_out());
            match status {
                Status::StreamEnd => return Ok(out),
                _ if out.len() == out.capacity() => {}
                _ if input.is_empty() => return Ok(out),
                _ if is_stuck && status == Status::BufError => return Err(Error::Headers),
                _ => {}
            }
        }
    }
}

fn parse(block: &[u8]) -> Option<Headers> {
    let mut rest = block;
    let number = |rest: &mut &[u8]| {
        let (bytes, tail) = rest.split_first_chunk::<4>()?;
        *rest = tail;
        usize::try_from(u32::from_be_bytes(*bytes)).ok()
    };
    let count = number(&mut rest)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let mut text = || {
            let length = number(&mut rest)?;
            let (bytes, tail) = rest.split_at_checked(length)?;
            rest = tail;
            String::from_utf8(bytes.to_vec()).ok()
        };
        let (name, value) = (text()?, text()?);
        headers.insert(name.to_ascii_lowercase(), value);
    }
    Some(headers)
}

pub(super) struct Encoder(Compress);

impl Encoder {
    pub(super) fn new() -> Self {
        let mut compress = Compress::new(Compression::default(), true);
        compress.set_dictionary(dictionary()).expect("a new compressor takes a dictionary");
        Self(compress)
    }

    pub(super) fn encode(&mut self, headers: &Headers) -> Vec<u8> {
        let mut plain = BytesMut::new();
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        plain.put_u32(number(headers.len()));
        for (name, value) in headers {
            for text in [name, value] {
                plain.put_u32(number(text.len()));
                plain.put_slice(text.as_bytes());
            }
        }
        let mut input = &plain[..];
        let mut out = Vec::with_capacity(plain.len() + 64);
        loop {
            let before = self.0.total_in();
            self.0
                .compress_vec(input, &mut out, FlushCompress::Sync)
                .expect("compressing in memory does not fail");
            let read = usize::try_from(self.0.total_in() - before).unwrap_or(usize::MAX);
            input = input.get(read..).unwrap_or_default();
            // Room that is left over means that the flush is complete.
            if input.is_empty() && out.len() < out.capacity() {
                return out;
            }
            out.reserve(64);
        }
    }
}
