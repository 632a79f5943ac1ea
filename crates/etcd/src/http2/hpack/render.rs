//! The header blocks of answers. Two headers are in nearly all of them, and the peer remembers
//! these two: after the first answer each is one byte.

use super::table;

const STATUS_OK: u8 = 0x88;
/// `:status`, `content-type`: numbers of the standard's table.
const NAME_STATUS: u8 = 8;
const NAME_CONTENT_TYPE: u8 = 31;

/// What the peer remembers of us: the first answer's type, then the first success.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remembered {
    Nothing,
    Type,
    TypeAndSuccess,
    /// The peer's table is too small to count on.
    Never,
}

pub(in crate::http2) struct Renderer {
    remembered: Remembered,
    /// The peer made its table smaller: the next block has to begin with our consent.
    owes_size: bool,
}

impl Renderer {
    pub(in crate::http2) fn new() -> Self {
        Self { remembered: Remembered::Nothing, owes_size: false }
    }

    /// The peer says how large its table is.
    pub(in crate::http2) fn limit(&mut self, size: u32) {
        if (size as usize) < table::SIZE_MAX {
            self.remembered = Remembered::Never;
            self.owes_size = true;
        }
    }

    fn begin(&mut self, block: &mut Vec<u8>) {
        if std::mem::take(&mut self.owes_size) {
            block.push(0x20);
        }
    }

    /// The head of a gRPC answer.
    pub(in crate::http2) fn head(&mut self, block: &mut Vec<u8>) {
        self.begin(block);
        block.push(STATUS_OK);
        match self.remembered {
            Remembered::Nothing => {
                self.remembered = Remembered::Type;
                block.push(0x40 | NAME_CONTENT_TYPE);
                string(block, b"application/grpc");
            }
            Remembered::Type => block.push(0x80 | 62),
            Remembered::TypeAndSuccess => block.push(0x80 | 63),
            Remembered::Never => named(block, NAME_CONTENT_TYPE, b"application/grpc"),
        }
    }

    /// The trailers of a call that succeeded.
    pub(in crate::http2) fn success(&mut self, block: &mut Vec<u8>) {
        self.begin(block);
        match self.remembered {
            Remembered::Type => {
                self.remembered = Remembered::TypeAndSuccess;
                block.push(0x40);
                string(block, b"grpc-status");
                string(block, b"0");
            }
            Remembered::TypeAndSuccess => block.push(0x80 | 62),
            Remembered::Nothing | Remembered::Never => self.field(block, b"grpc-status", b"0"),
        }
    }

    /// Any other header.
    pub(in crate::http2) fn field(&mut self, block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        self.begin(block);
        block.push(0);
        string(block, name);
        string(block, value);
    }

    /// The head of an answer that is no gRPC.
    pub(in crate::http2) fn plain(&mut self, block: &mut Vec<u8>, code: u16, content_type: &[u8]) {
        self.begin(block);
        named(block, NAME_STATUS, code.to_string().as_bytes());
        named(block, NAME_CONTENT_TYPE, content_type);
    }
}

/// Not to be remembered, with a name of the standard's table.
fn named(block: &mut Vec<u8>, name: u8, value: &[u8]) {
    integer(block, 0, 4, name.into());
    string(block, value);
}

fn string(block: &mut Vec<u8>, text: &[u8]) {
    integer(block, 0, 7, text.len());
    block.extend_from_slice(text);
}

fn integer(block: &mut Vec<u8>, flags: u8, prefix: u32, value: usize) {
    let mask = (1 << prefix) - 1;
    let Some(mut rest) = value.checked_sub(mask) else {
        block.push(flags | value as u8);
        return;
    };
    block.push(flags | mask as u8);
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::Renderer;
    use crate::http2::hpack::Decoder;

    fn read(decoder: &mut Decoder, block: &[u8]) -> String {
        let mut text = String::new();
        let utf8 = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let read = decoder.decode(block, |name, value| {
            text += &format!("{}={} ", utf8(name), utf8(value));
        });
        read.unwrap();
        text
    }

    /// What a peer reads from the answers to some calls, and how long the last one's blocks were.
    fn answers(renderer: &mut Renderer, decoder: &mut Decoder) -> usize {
        let mut len = 0;
        for _ in 0..3 {
            let (mut head, mut trailers) = (Vec::new(), Vec::new());
            renderer.head(&mut head);
            assert_eq!(read(decoder, &head), ":status=200 content-type=application/grpc ");
            renderer.success(&mut trailers);
            assert_eq!(read(decoder, &trailers), "grpc-status=0 ");
            len = head.len() + trailers.len();
        }
        len
    }

    #[test]
    fn the_peer_reads_what_was_meant() {
        let (mut renderer, mut decoder) = (Renderer::new(), Decoder::new());
        let mut block = Vec::new();
        renderer.success(&mut block);
        assert_eq!(read(&mut decoder, &block), "grpc-status=0 ");
        assert_eq!(answers(&mut renderer, &mut decoder), 3);
        let mut block = Vec::new();
        renderer.plain(&mut block, 503, b"application/json");
        renderer.field(&mut block, b"x", &[b'y'; 300]);
        let expected = format!(":status=503 content-type=application/json x={} ", "y".repeat(300));
        assert_eq!(read(&mut decoder, &block), expected);
        renderer.limit(65536);
        assert_eq!(answers(&mut renderer, &mut decoder), 3);
        renderer.limit(0);
        assert!(answers(&mut renderer, &mut decoder) > 3);
    }
}
