//! Takes off the compression of a layer or an archive, told by its first bytes: gzip, zstd or none.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The first of 16 magic numbers of frames to be skipped; `zstd:chunked` layers may start with one.
const ZSTD_SKIP: u32 = 0x184d_2a50;
const SNIFFED: usize = 4;
const BUFFER: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

fn sniff(first: &[u8]) -> Compression {
    let is_skip = first
        .first_chunk::<SNIFFED>()
        .is_some_and(|it| u32::from_le_bytes(*it) & !0xf == ZSTD_SKIP);
    if first.starts_with(GZIP) {
        Compression::Gzip
    } else if first.starts_with(ZSTD) || is_skip {
        Compression::Zstd
    } else {
        Compression::None
    }
}

pub(crate) fn is_compressed(first: &[u8]) -> bool {
    sniff(first) != Compression::None
}

pub(crate) fn decompress<'a>(mut source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut first = Vec::with_capacity(SNIFFED);
    source.by_ref().take(SNIFFED as u64).read_to_end(&mut first)?;
    let compression = sniff(&first);
    let whole = Cursor::new(first).chain(source);
    Ok(match compression {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Compression::Zstd => {
            let source = BufReader::with_capacity(BUFFER, whole);
            Box::new(Frames { source, decoder: FrameDecoder::new() })
        }
    })
}

/// The frames of a zstd stream, one after the other.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Frames<R> {
    /// Whether there is another frame.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                    if skipped != length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(err) => return Err(damaged(&err)),
            }
        }
    }
}

fn damaged(err: &FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, err.to_string())
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 {
            if self.decoder.is_finished() {
                if !self.begin()? {
                    return Ok(0);
                }
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(|err| damaged(&err))?;
            }
        }
        self.decoder.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::decompress;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn check(compressed: &[u8], expected: Option<&[u8]>) {
        let mut content = Vec::new();
        let outcome = decompress(compressed).and_then(|mut it| it.read_to_end(&mut content));
        assert_eq!(outcome.is_ok().then_some(content.as_slice()), expected);
    }

    #[test]
    fn the_first_bytes_tell_the_compression() {
        let content = b"some content ".repeat(50_000);
        let skip = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        check(&content, Some(&content));
        check(b"", Some(b""));
        check(b"abc", Some(b"abc"));
        check(&gzip(&content), Some(&content));
        check(&zstd(&content), Some(&content));
        check(&[gzip(b"one "), gzip(b"two")].concat(), Some(b"one two"));
        check(&[zstd(b"one "), skip.clone(), zstd(b"two")].concat(), Some(b"one two"));
        check(&[skip, zstd(&content)].concat(), Some(&content));
    }

    #[test]
    fn a_stream_that_ends_early_is_an_error() {
        let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        for whole in [gzip(&content), zstd(&content)] {
            check(&whole[..whole.len() / 2], None);
            check(&whole[..whole.len() - 1], None);
        }
    }
}
