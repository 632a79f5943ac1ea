//! Reads tar: ustar, GNU and PAX, as a stream. Extended headers are bounded, so that an archive
//! cannot fill the memory; that is why this is not a library's reader. Sparse files are refused:
//! image builders make none.

use std::io::{self, Read};

const BLOCK: usize = 512;
/// Path names are at most 4 KiB, an extended attribute 64 KiB.
const EXTENSION_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    HardLink,
    SymbolicLink,
    CharacterDevice,
    BlockDevice,
    Directory,
    Fifo,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) path: Vec<u8>,
    /// Where a link points to.
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) mtime: (i64, u32),
    pub(crate) device: (u32, u32),
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where its content starts in the stream.
    pub(crate) position: u64,
}

/// What extended headers say about the entry after them.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<(i64, u32)>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

pub(crate) struct Entries<R> {
    reader: R,
    position: u64,
    /// Of the present entry, not read yet.
    content_left: u64,
    padding: u64,
}

fn corrupt(problem: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.into())
}

impl<R: Read> Entries<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, position: 0, content_left: 0, padding: 0 }
    }

    /// The content of the present entry.
    pub(crate) fn content(&mut self) -> Content<'_, R> {
        Content(self)
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut extensions = Extensions::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = extensions.size.take();
            let own_size = number(&header[124..136])?;
            match header[156] {
                b'L' => extensions.path = Some(until_nul(&self.extension(own_size)?).to_vec()),
                b'K' => extensions.link = Some(until_nul(&self.extension(own_size)?).to_vec()),
                b'x' => {
                    let records = self.extension(own_size)?;
                    extensions.read_pax(&records)?;
                    continue;
                }
                // Global headers carry comments of git and the like.
                b'g' => self.begin(own_size)?,
                _ => {
                    let entry = entry(&header, extensions, size.unwrap_or(own_size))?;
                    let entry = Entry { position: self.position, ..entry };
                    self.begin(entry.size)?;
                    return Ok(Some(entry));
                }
            }
            extensions.size = size;
        }
    }

    fn begin(&mut self, size: u64) -> io::Result<()> {
        let block = BLOCK as u64;
        self.padding = (block - size % block) % block;
        self.content_left = size;
        match size.checked_add(self.padding) {
            Some(_) => Ok(()),
            None => Err(corrupt("an entry's size is out of range")),
        }
    }

    /// What is left of the present entry.
    fn skip(&mut self) -> io::Result<()> {
        let left = self.content_left + self.padding;
        let skipped = io::copy(&mut (&mut self.reader).take(left), &mut io::sink())?;
        self.position += skipped;
        (self.content_left, self.padding) = (0, 0);
        match skipped == left {
            true => Ok(()),
            false => Err(corrupt("the archive ends in the middle of an entry")),
        }
    }

    /// `None` at the end: a block of zeros, or nothing more at all.
    fn header(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        let mut header = [0; BLOCK];
        let mut n = 0;
        while n < BLOCK {
            match self.reader.read(&mut header[n..]) {
                Ok(0) if n == 0 => return Ok(None),
                Ok(0) => return Err(corrupt("the archive ends in the middle of a header")),
                Ok(read) => n += read,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        self.position += BLOCK as u64;
        if header.iter().all(|it| *it == 0) {
            return Ok(None);
        }
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(i, it)| u64::from(if (148..156).contains(&i) { b' ' } else { *it }))
            .sum();
        match number(&header[148..156]).is_ok_and(|it| it == sum) {
            true => Ok(Some(header)),
            false => Err(corrupt("a header's checksum is wrong: not a tar archive, or damaged")),
        }
    }

    fn extension(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > EXTENSION_MAX {
            return Err(corrupt(format!("an extended header has more than {EXTENSION_MAX} bytes")));
        }
        self.begin(size)?;
        let mut content = Vec::new();
        self.content().read_to_end(&mut content)?;
        Ok(content)
    }
}

pub(crate) struct Content<'a, R>(&'a mut Entries<R>);

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.0.content_left).unwrap_or(usize::MAX);
        let n = buffer.len().min(left);
        if n == 0 {
            return Ok(0);
        }
        let n = self.0.reader.read(&mut buffer[..n])?;
        if n == 0 {
            return Err(corrupt("the archive ends in the middle of an entry"));
        }
        self.0.content_left -= n as u64;
        self.0.position += n as u64;
        Ok(n)
    }
}

impl Extensions {
    /// Records of the form `<length> <key>=<value>\n`, where the length counts the whole record.
    fn read_pax(&mut self, mut records: &[u8]) -> io::Result<()> {
        let wrong = || corrupt("a PAX header is damaged");
        while !records.is_empty() {
            let space = records.iter().position(|it| *it == b' ').ok_or_else(wrong)?;
            let length: usize = text_number(&records[..space]).ok_or_else(wrong)?;
            if length <= space + 1 || length > records.len() || records[length - 1] != b'\n' {
                return Err(wrong());
            }
            let record = &records[space + 1..length - 1];
            let equals = record.iter().position(|it| *it == b'=').ok_or_else(wrong)?;
            self.take(&record[..equals], &record[equals + 1..]).ok_or_else(wrong)?;
            records = &records[length..];
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(text_number(value)?),
            b"uid" => self.uid = Some(text_number(value)?),
            b"gid" => self.gid = Some(text_number(value)?),
            b"mtime" => self.mtime = Some(time(value)?),
            _ if key.starts_with(b"GNU.sparse.") => return None,
            _ => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Some(())
    }
}

fn entry(header: &[u8; BLOCK], extensions: Extensions, size: u64) -> io::Result<Entry> {
    let kind = match header[156] {
        b'0' | 0 | b'7' => Kind::File,
        b'1' => Kind::HardLink,
        b'2' => Kind::SymbolicLink,
        b'3' => Kind::CharacterDevice,
        b'4' => Kind::BlockDevice,
        b'5' => Kind::Directory,
        b'6' => Kind::Fifo,
        b'S' => return Err(corrupt("sparse files are not supported")),
        other => {
            return Err(corrupt(format!(
                "entries of type {:?} are not supported",
                char::from(other)
            )));
        }
    };
    let path = extensions.path.unwrap_or_else(|| plain_path(header));
    // Before POSIX a directory was a file with a slash at the end.
    let kind = if kind == Kind::File && path.ends_with(b"/") { Kind::Directory } else { kind };
    let seconds = |bytes| number(bytes).map(|it| (it.cast_signed(), 0));
    Ok(Entry {
        kind,
        path,
        link: extensions.link.unwrap_or_else(|| until_nul(&header[157..257]).to_vec()),
        mode: narrow(number(&header[100..108])?)? & 0o7777,
        uid: extensions.uid.map_or_else(|| narrow(number(&header[108..116])?), Ok)?,
        gid: extensions.gid.map_or_else(|| narrow(number(&header[116..124])?), Ok)?,
        // Some writers give links the size of what they point to, without its content.
        size: if kind == Kind::File { size } else { 0 },
        mtime: extensions.mtime.map_or_else(|| seconds(&header[136..148]), Ok)?,
        device: match kind {
            Kind::CharacterDevice | Kind::BlockDevice => {
                (narrow(number(&header[329..337])?)?, narrow(number(&header[337..345])?)?)
            }
            _ => (0, 0),
        },
        xattrs: extensions.xattrs,
        position: 0,
    })
}

/// POSIX has a prefix for longer paths; GNU keeps other things there.
fn plain_path(header: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_nul(&header[..100]);
    let prefix = until_nul(&header[345..500]);
    if &header[257..263] == b"ustar\0" && !prefix.is_empty() {
        return [prefix, b"/", name].concat();
    }
    name.to_vec()
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// Octal digits, or with the highest bit set a big-endian number in two's complement.
fn number(field: &[u8]) -> io::Result<u64> {
    let wrong = || corrupt("a number in a header cannot be read");
    if field[0] & 0x80 != 0 {
        let is_negative = field[0] & 0x40 != 0;
        let start = if is_negative { u64::MAX } else { 0 };
        let first = if is_negative { field[0] } else { field[0] & 0x3f };
        let mut bytes = std::iter::once(first).chain(field[1..].iter().copied());
        return bytes.try_fold(start, |sum, byte| {
            let fill = if is_negative { u64::MAX >> 56 } else { 0 };
            match sum >> 56 == fill {
                true => Ok((sum << 8) | u64::from(byte)),
                false => Err(wrong()),
            }
        });
    }
    let digits = until_nul(field).trim_ascii();
    if digits.is_empty() {
        return Ok(0);
    }
    let text = std::str::from_utf8(digits).map_err(|_| wrong())?;
    u64::from_str_radix(text, 8).map_err(|_| wrong())
}

fn narrow(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| corrupt("a number in a header is out of range"))
}

fn text_number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Seconds with an optional fraction, of which nine digits count.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_negative = seconds.starts_with('-');
    let seconds: i64 = seconds.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    match is_negative && nanoseconds > 0 {
        true => Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds)),
        false => Some((seconds, nanoseconds)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::{Entries, number, time};

    #[test]
    fn numbers_are_octal_or_binary() {
        let check = |field: &[u8], expected: Option<i64>| {
            assert_eq!(number(field).ok().map(u64::cast_signed), expected, "{field:?}");
        };
        check(b"0000644\0", Some(0o644));
        check(b"    644 ", Some(0o644));
        check(b"\0\0\0\0", Some(0));
        check(b"99", None);
        check(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0], Some(1 << 33));
        check(&[0xff; 12], Some(-1));
        check(&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], None);
    }

    #[test]
    fn times_have_fractions() {
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"12"), Some((12, 0)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"x"), None);
    }

    #[test]
    fn what_a_common_writer_writes_is_read_back() {
        let mut builder = tar::Builder::new(Vec::new());
        let long = format!("{}/file", "long-name".repeat(30));
        for (path, content) in [("a", ""), ("b/c", "hello"), (long.as_str(), "deep")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o640);
            header.set_uid(5_000_000);
            header.set_mtime(77);
            builder.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        builder
            .append_pax_extensions([("mtime", b"9.5".as_slice()), ("SCHILY.xattr.user.a", b"b")])
            .unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "link", "to").unwrap();
        let archive = builder.into_inner().unwrap();
        let mut entries = Entries::new(archive.as_slice());
        let mut seen = Vec::new();
        while let Some(entry) = entries.next().unwrap() {
            let mut content = String::new();
            // Entries that nobody reads are skipped.
            if entry.path != b"a" {
                entries.content().read_to_string(&mut content).unwrap();
            }
            let at = usize::try_from(entry.position).unwrap();
            assert_eq!(&archive[at..at + content.len()], content.as_bytes());
            let path = String::from_utf8(entry.path).unwrap();
            seen.push((path, content, entry.mtime, entry.xattrs.len()));
        }
        assert_eq!(
            seen,
            [
                ("a".to_owned(), String::new(), (77, 0), 0),
                ("b/c".to_owned(), "hello".to_owned(), (77, 0), 0),
                (long, "deep".to_owned(), (77, 0), 0),
                ("link".to_owned(), String::new(), (9, 500_000_000), 1),
            ]
        );
    }

    #[test]
    fn a_huge_extended_header_is_refused_before_it_is_read() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        let reader = header.as_bytes().chain(std::io::repeat(b'x'));
        let err = Entries::new(reader).next().unwrap_err().to_string();
        assert_eq!(err, "an extended header has more than 1048576 bytes");
    }

    proptest! {
        /// Whatever the bytes are, reading ends, and without a panic.
        #[test]
        fn damaged_archives_never_panic(
            flips in proptest::collection::vec((0usize..2048, any::<u8>()), 0..6),
        ) {
            let mut builder = tar::Builder::new(Vec::new());
            builder.append_pax_extensions([("path", b"p".as_slice()), ("size", b"3")]).unwrap();
            let mut header = tar::Header::new_ustar();
            header.set_size(3);
            builder.append_data(&mut header, "x", b"abc".as_slice()).unwrap();
            let mut archive = builder.into_inner().unwrap();
            for (at, byte) in flips {
                let at = at % archive.len();
                archive[at] = byte;
                // A right checksum lets the damage through to what is behind it.
                if at < 512 {
                    let mut header = tar::Header::new_ustar();
                    header.as_mut_bytes().copy_from_slice(&archive[..512]);
                    header.set_cksum();
                    archive[..512].copy_from_slice(header.as_bytes());
                }
            }
            let mut entries = Entries::new(archive.as_slice());
            while let Ok(Some(_)) = entries.next() {}
        }
    }
}
