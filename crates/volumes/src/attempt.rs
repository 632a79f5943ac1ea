//! Saying what was being done when a call failed.

use std::fmt::Display;
use std::path::Path;

use node_api::Error;

pub(crate) trait Attempt<T> {
    /// `doing` and the path, as in `making /a/b`.
    fn attempt(self, doing: &str, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> Attempt<T> for Result<T, E> {
    fn attempt(self, doing: &str, path: &Path) -> Result<T, Error> {
        self.map_err(|err| failed(doing, path.display(), err))
    }
}

pub(crate) trait Named<T> {
    /// It says itself what was being done.
    fn named(self) -> Result<T, Error>;
}

impl<T> Named<T> for Result<T, linux::mounts::Error> {
    fn named(self) -> Result<T, Error> {
        self.map_err(|err| {
            let (doing, source) = err.into_parts();
            Error::node(doing, source)
        })
    }
}

pub(crate) fn failed(doing: &str, what: impl Display, err: impl Into<std::io::Error>) -> Error {
    let err: std::io::Error = err.into();
    Error::node(format!("{doing} {what}"), err)
}
