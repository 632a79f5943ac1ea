//! Header blocks (HPACK, RFC 7541): reading the peer's, and writing the few that a gRPC server has.

mod huffman;
mod render;
mod table;

use self::table::Table;

pub(super) use render::Renderer;

/// The block is no header block. The peer's table and ours may differ from here on, so the
/// connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) struct Decoder {
    table: Table,
    /// For strings in Huffman's code; kept for their memory.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { table: Table::new(), name: Vec::new(), value: Vec::new() }
    }

    /// Gives each header of a block to `take`.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        let mut rest = Rest(block);
        let mut is_first = true;
        while let Some(first) = rest.0.first().copied() {
            match first {
                0x80.. => {
                    let (name, value) = self.table.get(rest.integer(7)?).ok_or(Malformed)?;
                    take(name, value);
                }
                0x20..=0x3f => {
                    let size = rest.integer(5)?;
                    if !is_first {
                        return Err(Malformed);
                    }
                    self.table.resize(size).ok_or(Malformed)?;
                    continue;
                }
                0x40..=0x7f => self.literal(&mut rest, 6, true, &mut take)?,
                // Without remembering it, or never to be remembered by anybody.
                0..=0x1f => self.literal(&mut rest, 4, false, &mut take)?,
            }
            is_first = false;
        }
        Ok(())
    }

    fn literal(
        &mut self,
        rest: &mut Rest<'_>,
        prefix: u32,
        is_remembered: bool,
        take: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        self.name.clear();
        match rest.integer(prefix)? {
            0 => rest.string(&mut self.name)?,
            index => {
                let (name, _) = self.table.get(index).ok_or(Malformed)?;
                self.name.extend_from_slice(name);
            }
        }
        self.value.clear();
        rest.string(&mut self.value)?;
        take(&self.name, &self.value);
        if is_remembered {
            self.table.add(&self.name, &self.value);
        }
        Ok(())
    }
}

/// What of a block has not been read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// An integer whose first bits are the last `prefix` ones of a byte.
    fn integer(&mut self, prefix: u32) -> Result<usize, Malformed> {
        let mask = (1_usize << prefix) - 1;
        let mut value = usize::from(self.byte()?) & mask;
        if value < mask {
            return Ok(value);
        }
        // No header is as long as 2^28 bytes.
        for n in 0..4 {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << (7 * n);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn string(&mut self, text: &mut Vec<u8>) -> Result<(), Malformed> {
        let is_huffman = self.0.first().ok_or(Malformed)? & 0x80 != 0;
        let len = self.integer(7)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        match is_huffman {
            true => huffman::decode(bytes, text),
            false => {
                text.extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Decoder, Malformed};

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut headers = Vec::new();
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        decoder.decode(block, |name, value| {
            headers.push(format!("{}: {}", text(name), text(value)));
        })?;
        Ok(headers)
    }

    #[test]
    fn requests_of_the_standard_are_read_one_after_the_other() {
        // RFC 7541, appendix C.4: with Huffman's code, each block referring to the ones before.
        let mut decoder = Decoder::new();
        let mut check = |block: &[u8], expected: &[&str]| {
            assert_eq!(decoded(&mut decoder, block).unwrap(), expected);
        };
        check(
            b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
            &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
        );
        check(
            b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
            &[
                ":method: GET",
                ":scheme: http",
                ":path: /",
                ":authority: www.example.com",
                "cache-control: no-cache",
            ],
        );
        check(
            b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
            &[
                ":method: GET",
                ":scheme: https",
                ":path: /index.html",
                ":authority: www.example.com",
                "custom-key: custom-value",
            ],
        );
    }

    #[test]
    fn what_falls_out_of_the_table_cannot_be_referred_to() {
        let mut decoder = Decoder::new();
        assert_eq!(decoded(&mut decoder, b"\x40\x01a\x01b").unwrap(), ["a: b"]);
        assert_eq!(decoded(&mut decoder, b"\xbe").unwrap(), ["a: b"]);
        // The table is emptied, and made as large as it was.
        assert_eq!(decoded(&mut decoder, b"\x20\x3f\xe1\x1f\x82").unwrap(), [":method: GET"]);
        assert_eq!(decoded(&mut decoder, b"\xbe"), Err(Malformed));
        // Larger than we said it may be; not at the beginning of a block.
        assert_eq!(decoded(&mut decoder, b"\x3f\xe2\x1f"), Err(Malformed));
        assert_eq!(decoded(&mut decoder, b"\x82\x20"), Err(Malformed));
        for cut_short in
            [&b"\x40\x01a\x05b"[..], b"\x40", b"\x7f", b"\xff\xff\xff\xff\xff", b"\x80"]
        {
            assert_eq!(decoded(&mut decoder, cut_short), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..10),
        ) {
            let mut decoder = Decoder::new();
            for block in blocks {
                if decoded(&mut decoder, &block).is_err() {
                    break;
                }
                prop_assert!(decoder.table.get(62 + 128).is_none(), "the table is bounded");
            }
        }
    }
}
