//! How much of one segment is still needed, and what in it keeps deletions of later segments
//! needed.

/// Counts of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct Usage {
    /// Bytes of needed events.
    pub(in crate::embedded) needed: u64,
    /// Needless puts that are still in the file. While there are any, needless deletions in later
    /// segments must stay too: without them, opening would take such a put for current.
    pub(in crate::embedded) n_puts_needless: u64,
    /// Needless deletions that are still in the file.
    pub(in crate::embedded) n_deletions_needless: u64,
}

impl Usage {
    pub(super) fn forget(&mut self, bytes: u64, is_deletion: bool) {
        self.needed = self.needed.saturating_sub(bytes);
        if is_deletion {
            self.n_deletions_needless += 1;
        } else {
            self.n_puts_needless += 1;
        }
    }
}
