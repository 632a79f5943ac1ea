//! A file that a container has written into its volume. It may be a link, a pipe, or grow without
//! end, and be exchanged at any time: the kernel finds it inside the volume, and no more is read
//! than was asked for.

use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use linux::rooted::Root;
use node_api::Error;

use crate::Attempt as _;

pub(crate) fn read(root: &Path, path: &str, limit: usize) -> Result<Bytes, Error> {
    let opened = Root::open(root).attempt("opening", root)?;
    let file = opened.open_regular_inside(path).attempt("opening", Path::new(path))?;
    let mut content = Vec::new();
    let more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(more).read_to_end(&mut content).attempt("reading", Path::new(path))?;
    match content.len() <= limit {
        true => Ok(content.into()),
        false => Err(Error::Refused(format!("{path:?} has more than {limit} bytes"))),
    }
}
