//! What any bytes do to those who read images: each function takes some, and panics if a reader
//! does or breaks its law. The fuzz targets call them, and the test suite does with random bytes.

use std::path::Path;

use crate::Reference;
use crate::digest::Digest;
use crate::manifest::{self, ConfigFile, Document};
use crate::unpack::{Budget, Expected, unpack};

/// Manifests, indexes and configs, as registries and archives have them, and the names of images.
pub fn documents(bytes: &[u8]) {
    if let Ok(Document::Index(index)) = manifest::parse_document(bytes) {
        let _ = index.choose(manifest::architecture());
    }
    if let Ok(config) = ConfigFile::parse(bytes) {
        let _ = config.validate(1);
        let _ = config.into_image_config();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(reference) = Reference::parse(text) {
        let again = Reference::parse(&reference.to_string()).expect("what we write can be read");
        assert_eq!(again.to_string(), reference.to_string());
    }
}

/// A layer, unpacked into an empty directory; as a tar with right checksums too, which nobody
/// guesses. Nothing may be made beside it.
pub fn layer(bytes: &[u8], directory: &Path) {
    for (name, layer) in [("raw", bytes.to_vec()), ("tar", with_checksums(bytes))] {
        let root = directory.join(name);
        std::fs::create_dir(&root).expect("the directory is empty");
        let expected = Expected { digest: None, diff_id: Digest::of(&layer) };
        let _ = unpack(&layer[..], &root, &expected, &Budget::new(1 << 20, 100));
    }
    let names = std::fs::read_dir(directory).expect("it is there").count();
    assert_eq!(names, 2, "something was made outside of the layer's root");
}

/// Each block of 512 bytes as a header of a file of at most one block, with its magic, size and
/// checksum put right.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    for chunk in bytes.chunks(256) {
        let mut header = [0; 512];
        let (name, link) = chunk.split_at(chunk.len().min(90));
        header[..name.len()].copy_from_slice(name);
        let (link, rest) = link.split_at(link.len().min(90));
        header[157..157 + link.len()].copy_from_slice(link);
        header[100..107].copy_from_slice(b"0000755");
        let size = rest.first().map_or(0, |it| usize::from(*it));
        header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        header[156] = b"0123456gKLx5"[rest.get(1).map_or(0, |it| usize::from(*it)) % 12];
        header[257..265].copy_from_slice(b"ustar  \0");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|it| u32::from(*it)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        let mut content: Vec<u8> = rest.iter().copied().cycle().take(size).collect();
        content.resize(size.next_multiple_of(512), 0);
        archive.extend(content);
    }
    archive
}
