//! Giving memory back, for small processes that live long and do little.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Tells the kernel that this process does not need, for now, the pages of files that it has mapped
/// (its own program and libraries), and returns freed heap. They count no longer as resident; what
/// is used again is read from the page cache. Returns how many bytes of mappings were given back.
///
/// Only private mappings of files that are not writable are touched, and of them only pages that
/// nobody has written to: relocations were written while their mapping was still writable; those
/// pages are anonymous, and MADV_DONTNEED would lose them.
pub fn drop_touched_pages() -> io::Result<u64> {
    trim_heap();
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let pagemap = File::open("/proc/self/pagemap")?;
    let mut dropped = 0;
    for mapping in file_mappings(&maps) {
        for run in file_pages(&pagemap, &mapping)? {
            dropped += drop_run(&run);
        }
    }
    Ok(dropped)
}

fn drop_run(run: &Mapping) -> u64 {
    let length = run.end - run.start;
    // SAFETY: the pages belong to a mapping of a file that is private and not writable, and none is
    // anonymous: dropping them only makes the next access read the same bytes from the file again.
    // This holds for the code that runs now too.
    let result =
        unsafe { libc::madvise(run.start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    if result == 0 { length as u64 } else { 0 }
}

/// A page is present and belongs to a file (Documentation/admin-guide/mm/pagemap.rst, bits 63 and
/// 61).
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;
/// Entries that are read at once: the buffer stays small.
const ENTRIES: usize = 512;

/// The runs of resident pages of a mapping that are the file's own.
fn file_pages(pagemap: &File, mapping: &Mapping) -> io::Result<Vec<Mapping>> {
    let page = rustix::param::page_size();
    let mut runs: Vec<Mapping> = Vec::new();
    let mut entries = [0; ENTRIES * 8];
    let mut at = mapping.start;
    while at < mapping.end {
        let count = ((mapping.end - at) / page).min(ENTRIES);
        let bytes = &mut entries[..count * 8];
        pagemap.read_exact_at(bytes, (at / page * 8) as u64)?;
        for entry in bytes.as_chunks().0 {
            let is_clean = u64::from_ne_bytes(*entry) & (PRESENT | OF_FILE) == PRESENT | OF_FILE;
            match runs.last_mut() {
                Some(last) if is_clean && last.end == at => last.end = at + page,
                _ if is_clean => runs.push(Mapping { start: at, end: at + page }),
                _ => {}
            }
            at += page;
        }
    }
    Ok(runs)
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

/// From the text of `/proc/self/maps`: lines such as
/// `55d0c0a00000-55d0c0b00000 r-xp 00001000 fe:00 1234   /usr/bin/xebec`.
pub(super) fn file_mappings(maps: &str) -> Vec<Mapping> {
    let parse = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let range = words.next()?.to_owned();
        parse_mapping(&range, words)
    };
    maps.lines().filter_map(parse).collect()
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
