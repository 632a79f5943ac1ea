//! What comes out of log files, whatever happens to them meanwhile.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Options;
use super::entry::Entry;
use super::reader::{Reader, Step};
use crate::server::query::Query;

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("0.log")
    }

    fn write(&self, lines: &[&str]) {
        append(&self.path(), lines);
    }

    fn rotate(&self, number: u32) {
        fs::rename(self.path(), self.0.path().join(format!("0.log.20261116-{number:06}"))).unwrap();
    }

    fn read(&self, options: Options) -> String {
        drain(&mut Reader::open(self.path(), options).unwrap())
    }
}

/// `F text` or `P text`, one second apart.
fn append(path: &Path, lines: &[&str]) {
    let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
    for (second, line) in lines.iter().enumerate() {
        writeln!(file, "2026-11-16T00:00:{second:02}.5Z stdout {line}").unwrap();
    }
}

/// Until there is nothing more for now.
fn drain(reader: &mut Reader) -> String {
    let mut out = Vec::new();
    loop {
        match reader.step().unwrap() {
            Step::Lines(bytes) => out.extend_from_slice(&bytes),
            Step::Empty | Step::Full => return String::from_utf8(out).unwrap(),
        }
    }
}

fn tail(lines: u64) -> Options {
    Options { tail: Some(lines), ..Options::default() }
}

#[test]
fn the_last_lines_are_found_across_files_and_parts() {
    let files = Files::new();
    files.write(&["F one", "F two"]);
    files.rotate(1);
    files.write(&["F three", "P fo", "P u", "F r"]);
    files.rotate(2);
    files.write(&["F five"]);
    for (lines, expected) in [
        (0, ""),
        (1, "five\n"),
        (2, "four\nfive\n"),
        (3, "three\nfour\nfive\n"),
        (4, "two\nthree\nfour\nfive\n"),
        (99, "one\ntwo\nthree\nfour\nfive\n"),
    ] {
        assert_eq!(files.read(tail(lines)), expected, "the last {lines}");
    }
}

#[test]
fn the_last_lines_are_found_in_large_files() {
    let files = Files::new();
    let long = format!("F {}", "x".repeat(1_000));
    let lines: Vec<String> = (0..500).map(|it| format!("{long}{it}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for chunk in lines.chunks(50) {
        files.write(chunk);
    }
    let read = files.read(tail(200));
    assert_eq!(read.lines().count(), 200);
    assert!(read.lines().next().unwrap().ends_with("x300"));
}

#[test]
fn a_reader_goes_on_over_rotations_and_removals() {
    let files = Files::new();
    let mut reader = Reader::open(files.path(), Options::default()).unwrap();
    assert_eq!(drain(&mut reader), "", "there is no file yet");
    files.write(&["F one"]);
    assert_eq!(drain(&mut reader), "one\n");
    files.write(&["F two"]);
    files.rotate(1);
    files.write(&["F three"]);
    files.rotate(2);
    files.write(&["P fo"]);
    assert_eq!(drain(&mut reader), "two\nthree\nfo");
    files.rotate(3);
    files.write(&["F ur"]);
    files.rotate(4);
    files.write(&["F five"]);
    // The oldest are removed, as by every rotation: also the one that it stands in.
    for number in 1..=3 {
        fs::remove_file(files.0.path().join(format!("0.log.20261116-{number:06}"))).unwrap();
    }
    assert_eq!(drain(&mut reader), "ur\nfive\n");
    assert_eq!(drain(&mut reader), "");
}

#[test]
fn half_written_lines_wait_for_the_rest_and_others_are_skipped() {
    let files = Files::new();
    fs::write(files.path(), "no entry\n2026-11-16T00:00:00Z stdout F wh").unwrap();
    let mut reader = Reader::open(files.path(), Options::default()).unwrap();
    assert_eq!(drain(&mut reader), "");
    let mut file = fs::File::options().append(true).open(files.path()).unwrap();
    file.write_all(b"ole\n").unwrap();
    assert_eq!(drain(&mut reader), "whole\n");
}

#[test]
fn options_select_and_cut() {
    let files = Files::new();
    files.write(&["F zero", "P o", "F ne", "F three"]);
    let since: Timestamp = "2026-11-16T00:00:01Z".parse().unwrap();
    let check = |options: Options, expected: &str| assert_eq!(files.read(options), expected);
    check(Options { since: Some(since), ..Options::default() }, "one\nthree\n");
    check(Options { limit: Some(7), ..Options::default() }, "zero\non");
    check(
        Options { timestamps: true, ..tail(2) },
        "2026-11-16T00:00:01.500000000Z one\n2026-11-16T00:00:03.500000000Z three\n",
    );
    check(Options { stream: Some("stderr"), ..Options::default() }, "");
}

#[test]
fn entries_are_read_as_cri_writes_them() {
    let entry = Entry::parse(b"2026-11-16T00:00:00Z stderr P:x a  b ").unwrap();
    assert_eq!((entry.stream, entry.is_partial, entry.message), ("stderr", true, &b"a  b "[..]));
    assert_eq!(Entry::parse(b"2026-11-16T00:00:00Z stdout F").unwrap().message, b"");
    assert_eq!(Entry::parse(b"2026-11-16T00:00:00Z other F x"), None);
}

#[test]
fn queries_are_checked() {
    let now: Timestamp = "2026-11-16T00:01:00Z".parse().unwrap();
    let parse = |text: &str| Options::parse(&Query::parse(Some(text)), now);
    let options = parse("follow=true&sinceSeconds=60&tailLines=5&timestamps=0").unwrap();
    let since = Some("2026-11-16T00:00:00Z".parse().unwrap());
    assert_eq!(options, Options { follow: true, since, tail: Some(5), ..Options::default() });
    for wrong in [
        "tailLines=-1",
        "sinceTime=now",
        "stream=x",
        "sinceSeconds=1&sinceTime=2026-11-16T00:00:00Z",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
