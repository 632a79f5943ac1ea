//! Layers on a real filesystem. Owners, devices and overlayfs' attributes need root.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::{Budget, Error, Expected, Unpacked, unpack};
use crate::digest::Digest;

type Archive = Builder<Vec<u8>>;

fn archive(build: impl FnOnce(&mut Archive)) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    build(&mut builder);
    builder.into_inner().unwrap()
}

/// Any path, also such as the library would refuse to write.
fn header(kind: EntryType, path: &str, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_size(size as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1000);
    header.set_cksum();
    header
}

fn file(builder: &mut Archive, path: &str, content: &str) {
    builder.append(&header(EntryType::Regular, path, content.len()), content.as_bytes()).unwrap();
}

fn directory(builder: &mut Archive, path: &str) {
    builder.append(&header(EntryType::Directory, path, 0), std::io::empty()).unwrap();
}

fn link(builder: &mut Archive, kind: EntryType, path: &str, target: &str) {
    let mut header = header(kind, path, 0);
    header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    builder.append(&header, std::io::empty()).unwrap();
}

fn unpack_into(root: &Path, archive: &[u8]) -> Result<Unpacked, Error> {
    let expected = Expected { digest: Some(Digest::of(archive)), diff_id: Digest::of(archive) };
    unpack(archive, root, &expected, &Budget::new(1 << 20, 1000))
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: owners, devices and trusted attributes need root");
    }
    is_root
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(256);
    rustix::fs::lgetxattr(path, name, rustix::buffer::spare_capacity(&mut value)).ok()?;
    Some(value)
}

#[test]
fn files_keep_what_the_archive_says_of_them() {
    if !is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    // VFS_CAP_REVISION_2 with CAP_NET_BIND_SERVICE permitted and effective.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let archive = archive(|it| {
        directory(it, "./");
        directory(it, "bin/");
        it.append_pax_extensions([
            ("SCHILY.xattr.security.capability", capability.as_slice()),
            ("SCHILY.xattr.user.color", b"red"),
            ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
            ("mtime", b"5.25"),
        ])
        .unwrap();
        let mut su = header(EntryType::Regular, "bin/su", 5);
        su.set_mode(0o4755);
        su.set_uid(12);
        su.set_gid(34);
        su.set_cksum();
        it.append(&su, b"suid!".as_slice()).unwrap();
        link(it, EntryType::Link, "bin/sudo", "bin/su");
        link(it, EntryType::Symlink, "sbin", "/bin");
        let mut null = header(EntryType::Char, "null", 0);
        null.set_device_major(1).unwrap();
        null.set_device_minor(3).unwrap();
        null.set_mode(0o666);
        null.set_cksum();
        it.append(&null, std::io::empty()).unwrap();
        it.append(&header(EntryType::Fifo, "pipe", 0), std::io::empty()).unwrap();
    });
    let unpacked = unpack_into(root, &archive).unwrap();
    assert_eq!(unpacked.size, 5);
    assert!(unpacked.implied.is_empty(), "{:?}", unpacked.implied);
    let su = fs::metadata(root.join("bin/su")).unwrap();
    assert_eq!((su.mode() & 0o7777, su.uid(), su.gid(), su.nlink()), (0o4755, 12, 34, 2));
    assert_eq!((su.mtime(), su.mtime_nsec()), (5, 250_000_000));
    assert_eq!(xattr(&root.join("bin/su"), "security.capability").unwrap(), capability);
    assert_eq!(xattr(&root.join("bin/su"), "user.color").unwrap(), b"red");
    assert_eq!(xattr(&root.join("bin/su"), "trusted.overlay.redirect"), None);
    assert_eq!(fs::metadata(root.join("bin/sudo")).unwrap().ino(), su.ino());
    assert_eq!(fs::read_link(root.join("sbin")).unwrap(), Path::new("/bin"));
    let null = fs::metadata(root.join("null")).unwrap();
    assert_eq!((null.rdev(), null.mode() & 0o777), (rustix::fs::makedev(1, 3), 0o666));
    assert!(fs::metadata(root.join("pipe")).unwrap().file_type().is_fifo());
    // Directories keep their times, though files were made in them later.
    assert_eq!(fs::metadata(root.join("bin")).unwrap().mtime(), 1000);
    assert_eq!(fs::metadata(root).unwrap().mtime(), 1000);
}

#[test]
fn whiteouts_become_those_of_overlayfs() {
    if !is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let archive = archive(|it| {
        file(it, "etc/.wh.gone", "");
        file(it, "opaque/new", "x");
        file(it, "opaque/.wh..wh..opq", "");
        file(it, ".wh.again", "");
        directory(it, "again/");
        directory(it, "before/");
        file(it, ".wh.before", "");
        file(it, ".wh..wh.plnk", "");
    });
    unpack_into(root, &archive).unwrap();
    let gone = fs::symlink_metadata(root.join("etc/gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    let is_opaque =
        |name: &str| xattr(&root.join(name), "trusted.overlay.opaque").is_some_and(|it| it == b"y");
    assert!(is_opaque("opaque") && is_opaque("again") && is_opaque("before"));
    assert!(!is_opaque("etc"));
    assert!(!root.join(".wh..wh.plnk").exists() && !root.join("opaque/.wh..wh..opq").exists());
}

#[test]
fn parents_without_an_entry_are_named() {
    let root = tempfile::tempdir().unwrap();
    let archive = archive(|it| {
        file(it, "a/b/c", "");
        directory(it, "a/");
    });
    if is_root() {
        assert_eq!(unpack_into(root.path(), &archive).unwrap().implied, [b"a/b"]);
    }
}

#[test]
fn later_entries_replace_earlier_ones_of_any_kind() {
    if !is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let archive = archive(|it| {
        file(it, "a", "one");
        file(it, "a", "two");
        file(it, "d/inner/deep", "x");
        file(it, "d/inner/deep2", "x");
        file(it, "d", "now a file");
        link(it, EntryType::Symlink, "s", "a");
        file(it, "s", "not through the link");
        directory(it, "a");
        file(it, "a/b", "now in a directory");
    });
    unpack_into(root, &archive).unwrap();
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(text("d"), "now a file");
    assert_eq!(text("s"), "not through the link");
    assert_eq!(text("a/b"), "now in a directory");
}

/// Whatever an archive says, nothing outside of the root is made, changed or linked to.
#[test]
fn no_archive_reaches_out_of_its_root() {
    if !is_root() {
        return;
    }
    let check = |what: &str, build: &dyn Fn(&mut Archive)| {
        let outer = tempfile::tempdir().unwrap();
        let (root, victim) = (outer.path().join("root"), outer.path().join("victim"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("secret"), "secret").unwrap();
        let before = fs::metadata(&victim).unwrap();
        let outcome = unpack_into(&root, &archive(build));
        let names: Vec<_> =
            fs::read_dir(&victim).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"], "{what}");
        assert_eq!(fs::read_to_string(victim.join("secret")).unwrap(), "secret", "{what}");
        let after = fs::metadata(&victim).unwrap();
        assert_eq!((before.mode(), before.mtime()), (after.mode(), after.mtime()), "{what}");
        assert_eq!(fs::metadata(victim.join("secret")).unwrap().nlink(), 1, "{what}");
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2, "{what}");
        outcome.err().map(|it| stdx::error_chain(&it)).unwrap_or_default()
    };
    let outside = |path: &str| format!("path {path:?} leads outside of the layer");
    let error = check("dots", &|it| file(it, "../victim/new", "x"));
    assert_eq!(error, outside("../victim/new"));
    let error = check("dots inside", &|it| file(it, "a/../../victim/secret", "x"));
    assert_eq!(error, outside("a/../../victim/secret"));
    check("absolute", &|it| file(it, "/victim/new", "x"));
    check("link up", &|it| {
        link(it, EntryType::Symlink, "up", "../victim");
        file(it, "up/new", "x");
    });
    check("link through a link", &|it| {
        link(it, EntryType::Symlink, "one", "..");
        link(it, EntryType::Symlink, "two", "one/victim");
        file(it, "two/secret", "x");
        directory(it, "two/sub");
    });
    check("absolute link", &|it| {
        link(it, EntryType::Symlink, "tmp", "/proc/self/cwd/..");
        file(it, "tmp/new", "x");
    });
    check("times of a directory that became a link", &|it| {
        directory(it, "d");
        link(it, EntryType::Symlink, "d", "../victim");
    });
    let error = check("hard link", &|it| link(it, EntryType::Link, "own", "../victim/secret"));
    assert_eq!(error, outside("../victim/secret"));
    check("hard link through a link", &|it| {
        link(it, EntryType::Symlink, "up", "../victim");
        link(it, EntryType::Link, "own", "up/secret");
    });
    check("whiteout of the parent", &|it| file(it, ".wh...", "x"));
    check("whiteout through a link", &|it| {
        link(it, EntryType::Symlink, "up", "../victim");
        file(it, "up/.wh.secret", "x");
    });
    check("opaque through a link", &|it| {
        link(it, EntryType::Symlink, "up", "../victim");
        file(it, "up/.wh..wh..opq", "x");
    });
}

fn check_refused(archive: &[u8], expected: &str) {
    let root = tempfile::tempdir().unwrap();
    let err = unpack_into(root.path(), archive).err().unwrap();
    assert_eq!(stdx::error_chain(&err), expected);
}

#[test]
fn limits_are_named() {
    check_refused(
        &archive(|it| (0..1001).for_each(|n| file(it, &format!("d/.wh..wh.{n}"), ""))),
        "layer has more than 1000 entries",
    );
    check_refused(
        &archive(|it| file(it, "big", &"x".repeat(2 << 20))),
        "reading layer: image unpacks to more than the limit of 1048576 bytes",
    );
}

/// The limit counts what comes out of the decompression, before it reaches the disk.
#[test]
fn a_small_archive_cannot_fill_the_disk() {
    let mut bomb = header(EntryType::Regular, "zeros", 1 << 40);
    bomb.set_size(1 << 40);
    bomb.set_cksum();
    let zeros = bomb.as_bytes().chain(std::io::repeat(0));
    let mut compressed =
        flate2::read::GzEncoder::new(zeros.take(64 << 20), flate2::Compression::best());
    let mut archive = Vec::new();
    compressed.read_to_end(&mut archive).unwrap();
    assert!(archive.len() < 100_000);
    check_refused(&archive, "reading layer: image unpacks to more than the limit of 1048576 bytes");
}

#[test]
fn damage_is_named() {
    let good = archive(|it| file(it, "a", "some content"));
    check_refused(&good[..600], "reading layer: the archive ends in the middle of an entry");
    check_refused(&good[..300], "reading layer: the archive ends in the middle of a header");
    check_refused(
        &[b'x'; 1024],
        "reading layer: a header's checksum is wrong: not a tar archive, or damaged",
    );
    let root = tempfile::tempdir().unwrap();
    let right = Digest::of(&good);
    let expected = Expected { digest: None, diff_id: Digest::of(b"other") };
    let err = unpack(good.as_slice(), root.path(), &expected, &Budget::new(1 << 20, 10));
    let err = err.err().unwrap().to_string();
    assert_eq!(err, format!("layer has digest {right}, expected {}", Digest::of(b"other")));
}
