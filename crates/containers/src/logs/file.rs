//! One container's log file and its rotated predecessors, `0.log` and `0.log.20261116-000000`, as
//! kubelets name them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::records::Limits;

const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// Invariant: the file ends with a whole entry, also after the disk was full.
pub(crate) struct LogFile {
    path: PathBuf,
    limits: Limits,
    /// `None` after a failure to open it; tried again with the next entry.
    file: Option<File>,
    size: u64,
    /// The second that the last rotated file was named by.
    rotated_at: i64,
    /// Writes that were lost because the disk had no place or failed.
    writes_lost: u64,
}

impl LogFile {
    /// Makes the directory too.
    pub(crate) fn open(path: PathBuf, limits: Limits) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut log = Self { path, limits, file: None, size: 0, rotated_at: -1, writes_lost: 0 };
        log.reopen()?;
        Ok(log)
    }

    fn reopen(&mut self) -> io::Result<()> {
        // Pods may have been given the folder: a link in its place would have us write to the
        // host's files.
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .custom_flags(NO_LINK)
            .open(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    pub(crate) fn writes_lost(&self) -> u64 {
        self.writes_lost
    }

    /// Appends whole entries. They are lost, and counted, if the disk does not take them.
    pub(crate) fn append(&mut self, entries: &[u8], now: Timestamp) {
        if entries.is_empty() {
            return;
        }
        match self.write(entries) {
            Ok(()) => self.size += entries.len() as u64,
            Err(_) => self.writes_lost += 1,
        }
        if self.size >= self.limits.size_max && self.limits.size_max > 0 {
            self.rotate(now);
        }
    }

    fn write(&mut self, entries: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(entries).inspect_err(|_| {
            // Half an entry would spoil the next one.
            let _ = file.set_len(self.size);
        })
    }

    /// If the rename fails the file grows on: a log that is too long is better than one that is
    /// lost.
    fn rotate(&mut self, now: Timestamp) {
        // Two rotations within a second must neither overwrite nor change order.
        let second = now.as_second().max(self.rotated_at + 1);
        self.rotated_at = second;
        let name = Timestamp::from_second(second).unwrap_or(now).strftime("%Y%m%d-%H%M%S");
        let mut rotated = OsString::from(&self.path);
        rotated.push(format!(".{name}"));
        if fs::rename(&self.path, rotated).is_ok() {
            self.file = None;
            self.size = 0;
            let _ = self.reopen();
            self.remove_oldest();
        }
    }

    fn remove_oldest(&self) {
        let rotated = rotated_files(&self.path);
        let keep = usize::try_from(self.limits.files_max.saturating_sub(1)).unwrap_or(usize::MAX);
        for path in rotated.iter().take(rotated.len().saturating_sub(keep)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Oldest first: the time in the name sorts.
fn rotated_files(path: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let mut prefix = name.as_encoded_bytes().to_vec();
    prefix.push(b'.');
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|it| it.file_name().as_encoded_bytes().starts_with(&prefix))
        .map(|it| it.path())
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use jiff::Timestamp;

    use super::LogFile;
    use crate::records::Limits;

    fn files(directory: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|it| it.unwrap())
            .map(|it| {
                let name = it.file_name().into_string().unwrap();
                (name, fs::read_to_string(it.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn check(limits: Limits, writes: &[(i64, &str)], expected: &[(&str, &str)]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pod/c/0.log");
        let mut log = LogFile::open(path.clone(), limits).unwrap();
        for (second, text) in writes {
            log.append(text.as_bytes(), Timestamp::from_second(*second).unwrap());
        }
        let actual = files(path.parent().unwrap());
        let actual: Vec<_> = actual.iter().map(|(name, text)| (&**name, &**text)).collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_is_removed() {
        let limits = Limits { size_max: 4, files_max: 3 };
        check(limits, &[(0, "a\n"), (1, "b")], &[("0.log", "a\nb")]);
        check(
            limits,
            &[(0, "one\n"), (1, "two\n"), (2, "three\n"), (3, "4\n")],
            &[
                ("0.log", "4\n"),
                ("0.log.19700101-000001", "two\n"),
                ("0.log.19700101-000002", "three\n"),
            ],
        );
    }

    #[test]
    fn rotations_within_one_second_lose_nothing_and_keep_their_order() {
        check(
            Limits { size_max: 1, files_max: 9 },
            &[(5, "a"), (5, "b"), (5, "c")],
            &[
                ("0.log", ""),
                ("0.log.19700101-000005", "a"),
                ("0.log.19700101-000006", "b"),
                ("0.log.19700101-000007", "c"),
            ],
        );
    }

    #[test]
    fn one_file_means_that_nothing_rotated_is_kept() {
        check(Limits { size_max: 2, files_max: 1 }, &[(0, "ab"), (1, "c")], &[("0.log", "c")]);
    }

    #[test]
    fn logs_of_other_attempts_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["1.log", "1.log.19700101-000000", "10.log.19700101-000000"] {
            fs::write(directory.path().join(name), "old").unwrap();
        }
        let limits = Limits { size_max: 1, files_max: 1 };
        let mut log = LogFile::open(directory.path().join("0.log"), limits).unwrap();
        log.append(b"x", Timestamp::UNIX_EPOCH);
        assert_eq!(files(directory.path()).len(), 4);
    }

    #[test]
    fn an_opened_log_goes_on_where_it_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let limits = Limits { size_max: 4, files_max: 2 };
        LogFile::open(path.clone(), limits).unwrap().append(b"ab", Timestamp::UNIX_EPOCH);
        LogFile::open(path, limits).unwrap().append(b"cd", Timestamp::UNIX_EPOCH);
        let text = files(directory.path());
        assert_eq!(text[1], ("0.log.19700101-000000".to_owned(), "abcd".to_owned()));
    }

    #[test]
    fn a_failing_disk_costs_entries_and_is_counted() {
        let limits = Limits { size_max: 0, files_max: 1 };
        let mut log = LogFile::open("/dev/full".into(), limits).unwrap();
        log.append(b"x\n", Timestamp::UNIX_EPOCH);
        log.append(b"y\n", Timestamp::UNIX_EPOCH);
        assert_eq!(log.writes_lost(), 2);
    }
}
