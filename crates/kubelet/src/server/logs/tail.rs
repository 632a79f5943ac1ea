//! Where the last n lines begin, found by reading backwards.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::entry::Entry;

const BLOCK: u64 = 64 * 1024;
/// A longer line is not one of ours; the search ends there.
const LINE_MAX: usize = 1024 * 1024;

/// How far back a search has come.
pub(super) struct Search {
    /// Whole lines still to be found; parts of a line count with its last.
    pub(super) wanted: u64,
}

impl Search {
    /// The offset in this file after which the wanted lines begin; `None`: in an older file.
    pub(super) fn back(&mut self, file: &File, length: u64) -> io::Result<Option<u64>> {
        let mut end = length;
        // The beginning of the line that the block before ends in.
        let mut rest: Vec<u8> = Vec::new();
        while end > 0 {
            let start = end.saturating_sub(BLOCK);
            let mut block = vec![0; usize::try_from(end - start).unwrap_or_default()];
            file.read_exact_at(&mut block, start)?;
            block.append(&mut rest);
            let mut line_end = block.len();
            for at in (0..block.len()).rev().filter(|it| block[*it] == b'\n').collect::<Vec<_>>() {
                if self.ends_here(&block[at + 1..line_end]) {
                    let found = start + line_end as u64;
                    return Ok(Some(found));
                }
                line_end = at + 1;
            }
            rest = block;
            rest.truncate(line_end);
            if rest.len() > LINE_MAX {
                return Ok(Some(start + line_end as u64));
            }
            end = start;
        }
        Ok(self.ends_here(&rest).then_some(rest.len() as u64))
    }

    /// Whether everything that was wanted comes after this line.
    fn ends_here(&mut self, line: &[u8]) -> bool {
        let Some(line) = line.strip_suffix(b"\n") else { return false };
        if Entry::parse(line).is_some_and(|it| it.is_partial) {
            return false;
        }
        if self.wanted == 0 {
            return true;
        }
        self.wanted -= 1;
        false
    }
}
