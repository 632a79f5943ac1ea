//! Giving memory back, for small processes that live long and do little.

use std::io;

/// Tells the kernel that this process does not need, for now, the pages of files that it has mapped (its own program
/// and libraries), and returns freed heap. They count no longer as resident; what is used again is read from the page
/// cache. Returns how many bytes of mappings were given back.
///
/// Only private mappings of files that are not writable are touched. Nobody has written to them (relocations, the only
/// exception, are in mappings that were writable: their pages are anonymous and MADV_DONTNEED would lose them, so
/// mappings with anonymous pages are skipped).
pub fn drop_touched_pages() -> io::Result<u64> {
    trim_heap();
    let maps = std::fs::read_to_string("/proc/self/smaps")?;
    let mut dropped = 0;
    for mapping in clean_file_mappings(&maps) {
        let length = mapping.end - mapping.start;
        // SAFETY: the mapping is of a file, private, not writable, and has no anonymous page: dropping its pages only
        // makes the next access read the same bytes from the file again. This holds for the code that runs now too.
        let result = unsafe {
            libc::madvise(mapping.start as *mut libc::c_void, length, libc::MADV_DONTNEED)
        };
        if result == 0 {
            dropped += length as u64;
        }
    }
    Ok(dropped)
}

#[cfg(target_env = "gnu")]
fn trim_heap() {
    // SAFETY: malloc_trim has no preconditions.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim_heap() {}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// From the text of `/proc/self/smaps`: a line such as
/// `55d0c0a00000-55d0c0b00000 r-xp 00001000 fe:00 1234   /usr/bin/xebec`, then lines such as `Anonymous:   0 kB`.
pub(super) fn clean_file_mappings(smaps: &str) -> Vec<Mapping> {
    let mut mappings = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        match first.strip_suffix(':') {
            None => current = parse_mapping(first, words),
            Some("Anonymous") if words.next() == Some("0") => mappings.extend(current.take()),
            Some(_) => {}
        }
    }
    mappings
}

fn parse_mapping<'a>(range: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Mapping> {
    let (start, end) = range.split_once('-')?;
    let permissions = words.next()?;
    let path = words.nth(3)?;
    let is_candidate = permissions.starts_with('r')
        && !permissions.contains('w')
        && permissions.ends_with('p')
        && path.starts_with('/');
    let mapping = Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
    };
    is_candidate.then_some(mapping)
}
