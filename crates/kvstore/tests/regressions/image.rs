//! What a crash leaves of a store's directory: a copy, taken while the store works, and cut where
//! the last write was under way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvstore::embedded::{Embedded, Options};
use tempfile::TempDir;

pub(crate) struct Image(TempDir);

impl Image {
    pub(crate) fn of(dir: &Path) -> Self {
        let image = TempDir::new().unwrap();
        copy(dir, image.path());
        Self(image)
    }

    /// The same with the last segment cut to this length.
    pub(crate) fn cut(dir: &Path, len: u64) -> Self {
        let image = Self::of(dir);
        let last = last_segment(image.0.path());
        let file = std::fs::OpenOptions::new().write(true).open(last).unwrap();
        file.set_len(len).unwrap();
        image
    }

    pub(crate) fn open(&self) -> Arc<Embedded> {
        Embedded::open(self.0.path(), Options::default()).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn last_segment(dir: &Path) -> PathBuf {
    let segments = std::fs::read_dir(dir.join("log")).unwrap();
    segments.map(|it| it.unwrap().path()).max().unwrap()
}

/// How long the last segment is.
pub(crate) fn len(dir: &Path) -> u64 {
    last_segment(dir).metadata().unwrap().len()
}
