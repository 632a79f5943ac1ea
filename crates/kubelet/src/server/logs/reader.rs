//! Reads entries and renders lines, a piece at a time. Blocking; knows nothing of clients.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use bytes::Bytes;

use super::Options;
use super::entry::Entry;
use super::files::{self, FileId};
use super::tail::Search;

const BLOCK: usize = 64 * 1024;
/// What is rendered at once, about.
const PIECE: usize = 64 * 1024;
/// What is read at once, if nothing of it is wanted.
const READ_MAX: usize = 4 * 1024 * 1024;
/// A longer line is not one of ours, and is skipped.
const LINE_MAX: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Maybe none: there is more to read.
    Lines(Bytes),
    /// Nothing more for now.
    Empty,
    /// The limit is reached.
    Full,
}

pub(super) struct Reader {
    path: PathBuf,
    options: Options,
    /// `None` until the container has written its first file.
    current: Option<(File, FileId)>,
    /// Files that were there at the beginning, the next one last.
    waiting: Vec<(File, FileId)>,
    /// Read and not yet rendered: at most one line that is not whole, after each step.
    unread: Vec<u8>,
    /// The last entry ended its line.
    is_line_start: bool,
    /// Bytes that may still be sent.
    left: Option<u64>,
}

impl Reader {
    pub(super) fn open(path: PathBuf, options: Options) -> io::Result<Self> {
        let mut opened = files::open_all(&path)?;
        if let (Some(since), None) = (options.since, options.tail) {
            // All lines of a file are older than its last change.
            let is_old = |it: &std::fs::Metadata| {
                let changed = it.modified().ok().and_then(|it| jiff::Timestamp::try_from(it).ok());
                changed.is_some_and(|it| it < since)
            };
            let n_old = opened.iter().take_while(|it| is_old(&it.1)).count();
            opened.drain(..n_old.min(opened.len().saturating_sub(1)));
        }
        let mut search = options.tail.map(|wanted| Search { wanted });
        let mut waiting = Vec::new();
        while let Some((mut file, metadata)) = opened.pop() {
            let begins = match &mut search {
                Some(search) => search.back(&file, metadata.len())?,
                None => None,
            };
            if let Some(offset) = begins {
                file.seek(SeekFrom::Start(offset))?;
            }
            waiting.push((file, FileId::of(&metadata)));
            if begins.is_some() {
                break;
            }
        }
        let (unread, left) = (Vec::new(), options.limit);
        Ok(Self { path, options, current: None, waiting, unread, is_line_start: true, left })
    }

    pub(super) fn step(&mut self) -> io::Result<Step> {
        let (mut out, mut n_read) = (Vec::new(), 0);
        loop {
            self.render(&mut out);
            if self.left == Some(0) && out.is_empty() {
                return Ok(Step::Full);
            }
            if self.left == Some(0) || out.len() >= PIECE || n_read >= READ_MAX {
                return Ok(Step::Lines(out.into()));
            }
            match self.read()? {
                0 if out.is_empty() => return Ok(Step::Empty),
                0 => return Ok(Step::Lines(out.into())),
                n_bytes => n_read += n_bytes,
            }
        }
    }

    /// 0: nothing more for now.
    fn read(&mut self) -> io::Result<usize> {
        loop {
            let Some((file, id)) = &mut self.current else {
                self.current = match self.waiting.pop() {
                    Some(next) => Some(next),
                    None => files::open(&self.path)?.map(|(file, it)| (file, FileId::of(&it))),
                };
                if self.current.is_none() {
                    return Ok(0);
                }
                continue;
            };
            let n_bytes = read_some(file, &mut self.unread)?;
            if n_bytes > 0 {
                return Ok(n_bytes);
            }
            let next = match self.waiting.pop() {
                Some(next) => Some(next),
                None => files::after(&self.path, *id)?,
            };
            let Some(next) = next else { return Ok(0) };
            // It is rotated, so that nothing more is written to it: but something may have been
            // since the last look.
            let n_bytes = read_some(file, &mut self.unread)?;
            if n_bytes > 0 {
                self.waiting.push(next);
                return Ok(n_bytes);
            }
            self.unread.clear();
            self.current = Some(next);
        }
    }

    fn render(&mut self, out: &mut Vec<u8>) {
        let mut unread = self.unread.as_slice();
        while self.left != Some(0) {
            let Some(end) = unread.iter().position(|it| *it == b'\n') else { break };
            let line = &unread[..end];
            unread = &unread[end + 1..];
            let Some(entry) = Entry::parse(line).filter(|it| is_wanted(&self.options, it)) else {
                continue;
            };
            let before = out.len();
            if self.is_line_start && self.options.timestamps {
                entry.render_time(out);
                out.push(b' ');
            }
            out.extend_from_slice(entry.message);
            if !entry.is_partial {
                out.push(b'\n');
            }
            self.is_line_start = !entry.is_partial;
            if let Some(left) = &mut self.left {
                let room = usize::try_from(*left).unwrap_or(usize::MAX);
                out.truncate(before.saturating_add(room));
                *left -= (out.len() - before) as u64;
            }
        }
        let rest = if unread.len() > LINE_MAX { 0 } else { unread.len() };
        let done = self.unread.len() - rest;
        self.unread.drain(..done);
    }
}

fn is_wanted(options: &Options, entry: &Entry<'_>) -> bool {
    options.stream.is_none_or(|it| it == entry.stream)
        && options.since.is_none_or(|since| entry.timestamp().is_none_or(|it| it >= since))
}

fn read_some(file: &mut File, out: &mut Vec<u8>) -> io::Result<usize> {
    let length = out.len();
    out.resize(length + BLOCK, 0);
    let read = file.read(&mut out[length..]);
    out.truncate(length + *read.as_ref().unwrap_or(&0));
    read
}
