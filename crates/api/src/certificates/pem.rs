//! PEM (RFC 7468), as forgiving as upstream's reader: what stands around blocks is no part of them,
//! and a block that cannot be read is passed over.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
const LINE: usize = 64;

pub struct Block {
    pub label: String,
    pub has_headers: bool,
    pub bytes: Vec<u8>,
}

/// Every block, in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut lines = text.lines().map(str::trim_end).peekable();
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix(BEGIN).and_then(|it| it.strip_suffix(DASHES)) else {
            continue;
        };
        let end = format!("{END}{label}{DASHES}");
        let mut body: Vec<&str> = Vec::new();
        // A block that never ends leaves what follows to be looked at.
        while let Some(line) = lines.next_if(|it| !it.starts_with(BEGIN)) {
            if line != end {
                body.push(line);
                continue;
            }
            blocks.extend(read(label, &body));
            break;
        }
    }
    blocks
}

/// A block, with lines of 64 characters.
pub fn render(label: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines = text.as_bytes().chunks(LINE).map(String::from_utf8_lossy);
    let lines: String = lines.map(|it| format!("{it}\n")).collect();
    format!("{BEGIN}{label}{DASHES}\n{lines}{END}{label}{DASHES}\n")
}

fn read(label: &str, body: &[&str]) -> Option<Block> {
    let n_headers = body.iter().take_while(|it| it.contains(':')).count();
    let text: String =
        body[n_headers..].iter().flat_map(|it| it.split_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(text).ok()?;
    Some(Block { label: label.to_owned(), has_headers: n_headers > 0, bytes })
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_are_found_among_other_text() {
        let text = "hello\n-----BEGIN A-----\nYWJj\r\n ZGVm\n-----END A-----\nthere\n-----BEGIN B-----\n\
                    Key: value\n\nZ2hp\n-----END B-----";
        let found: Vec<_> =
            blocks(text).into_iter().map(|it| (it.label, it.has_headers, it.bytes)).collect();
        assert_eq!(
            found,
            [("A".to_owned(), false, b"abcdef".to_vec()), ("B".to_owned(), true, b"ghi".to_vec())]
        );
    }

    #[test]
    fn a_block_that_cannot_be_read_is_passed_over() {
        let good = "-----BEGIN A-----\nYWJj\n-----END A-----\n";
        for bad in [
            "-----BEGIN A-----\nYWJj\n-----END B-----\n",
            "-----BEGIN A-----\n!\n-----END A-----\n",
            "-----BEGIN A\n",
            "-----BEGIN A-----\nYWJj\n",
            "-----END A-----\n",
        ] {
            assert_eq!(blocks(bad).len(), 0, "{bad}");
            assert_eq!(blocks(&format!("{bad}{good}")).len(), 1, "{bad}");
        }
        assert!(blocks("").is_empty());
    }
}
