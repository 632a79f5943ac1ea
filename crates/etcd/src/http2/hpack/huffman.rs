//! The code that strings in header blocks may be written in (RFC 7541, appendix B). It is
//! canonical: codes of one length follow each other in the order of their symbols, so the lengths
//! say everything.

use super::Malformed;

/// All bytes, and the end of a string, which is never sent: but what pads the last byte begins like
/// it.
const N_SYMBOLS: usize = 257;
const LENGTH_MIN: usize = 5;
const LENGTH_MAX: usize = 30;

#[rustfmt::skip]
const LENGTHS: [u8; N_SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// For each length its first code, how many there are, and where their symbols begin in `symbols`.
struct Code {
    first: [u32; LENGTH_MAX + 1],
    count: [u32; LENGTH_MAX + 1],
    start: [usize; LENGTH_MAX + 1],
    symbols: [u16; N_SYMBOLS],
}

static CODE: Code = Code::new();

impl Code {
    const fn new() -> Self {
        let mut code = Self {
            first: [0; LENGTH_MAX + 1],
            count: [0; LENGTH_MAX + 1],
            start: [0; LENGTH_MAX + 1],
            symbols: [0; N_SYMBOLS],
        };
        let (mut length, mut next, mut n_symbols) = (1, 0, 0);
        while length <= LENGTH_MAX {
            next <<= 1;
            code.first[length] = next;
            code.start[length] = n_symbols;
            let mut symbol = 0;
            while symbol < N_SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    code.symbols[n_symbols] = symbol as u16;
                    n_symbols += 1;
                    next += 1;
                }
                symbol += 1;
            }
            code.count[length] = next - code.first[length];
            length += 1;
        }
        code
    }
}

pub(super) fn decode(bytes: &[u8], text: &mut Vec<u8>) -> Result<(), Malformed> {
    // The next bits, from the highest on; ones follow the last, as padding does.
    let (mut window, mut n_bits) = (u64::MAX, 0);
    let mut rest = bytes.iter();
    loop {
        while n_bits <= 56
            && let Some(byte) = rest.next()
        {
            let shift = 56 - n_bits;
            window &= !(0xff << shift) | u64::from(*byte) << shift;
            n_bits += 8;
        }
        let (symbol, length) = next_symbol(window)?;
        if length > n_bits {
            let is_padding = n_bits < 8 && window == u64::MAX;
            return if is_padding { Ok(()) } else { Err(Malformed) };
        }
        text.push(u8::try_from(symbol).map_err(|_| Malformed)?);
        window = window << length | ((1 << length) - 1);
        n_bits -= length;
    }
}

fn next_symbol(window: u64) -> Result<(u16, usize), Malformed> {
    for length in LENGTH_MIN..=LENGTH_MAX {
        let nth = ((window >> (64 - length)) as u32).wrapping_sub(CODE.first[length]);
        if nth < CODE.count[length] {
            return Ok((CODE.symbols[CODE.start[length] + nth as usize], length));
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn strings_of_the_standard_are_read() {
        let check = |bytes: &[u8], expected: Option<&str>| {
            let mut text = Vec::new();
            let decoded = decode(bytes, &mut text).ok().map(|()| String::from_utf8(text).unwrap());
            assert_eq!(decoded.as_deref(), expected);
        };
        check(b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", Some("www.example.com"));
        check(b"\xa8\xeb\x10\x64\x9c\xbf", Some("no-cache"));
        check(b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", Some("custom-value"));
        check(b"", Some(""));
        // Padding of eight bits or more, or that is not of ones.
        check(b"\xa8\xeb\x10\x64\x9c\xbf\xff", None);
        check(b"\xa8\xeb\x10\x64\x9c\xbe", None);
        // The end's own code.
        check(b"\xff\xff\xff\xff", None);
    }
}
