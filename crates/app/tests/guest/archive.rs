//! An initramfs: the `newc` format of cpio
//! (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's sources). A header
//! of numbers in hexadecimal, a name, a content, each padded to four bytes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

pub(crate) struct Archive {
    file: BufWriter<File>,
    /// Number of the last entry.
    inode: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    pub(crate) fn create(path: &Path) -> Self {
        let file = BufWriter::new(File::create(path).unwrap());
        Self { file, inode: 0, directories: BTreeSet::new() }
    }

    /// With its parents.
    pub(crate) fn directory(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || !self.directories.insert(path.to_owned()) {
            return;
        }
        self.parent(path);
        self.entry(path, DIRECTORY, &[]);
    }

    /// Everybody may execute it; that harms no other file.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.parent(path);
        self.entry(path, PROGRAM, content);
    }

    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.parent(path);
        self.entry(path, LINK, to.as_bytes());
    }

    pub(crate) fn copy(&mut self, path: &str, from: &Path) {
        let content = std::fs::read(from).unwrap_or_else(|err| panic!("{}: {err}", from.display()));
        self.file(path, &content);
    }

    pub(crate) fn finish(mut self) {
        self.entry("TRAILER!!!", 0, &[]);
        self.file.flush().unwrap();
    }

    fn parent(&mut self, path: &str) {
        if let Some((parent, _)) = path.trim_matches('/').rsplit_once('/') {
            self.directory(parent);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        let name = path.trim_matches('/');
        self.inode += 1;
        let size = u32::try_from(content.len()).unwrap();
        let name_size = u32::try_from(name.len() + 1).unwrap();
        // Number, mode, user, group, links, time, size, device (2), special device (2), size of the
        // name, checksum.
        let numbers = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut head = b"070701".to_vec();
        for number in numbers {
            write!(head, "{number:08x}").unwrap();
        }
        head.extend_from_slice(name.as_bytes());
        head.push(0);
        self.padded(&head);
        self.padded(content);
    }

    fn padded(&mut self, content: &[u8]) {
        self.file.write_all(content).unwrap();
        let padding = content.len().next_multiple_of(4) - content.len();
        self.file.write_all(&[0; 3][..padding]).unwrap();
    }
}
