//! `pods/<uid>/allocation.json`: what was agreed to, and which containers that run have another size
//! than they were made with. It is there whole or not at all.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Allocation, Size};
use crate::disk;

const FILE: &str = "allocation.json";
/// More is not ours.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) allocation: Allocation,
    /// By container id.
    #[serde(default)]
    pub(crate) resized: BTreeMap<String, Size>,
}

/// `None`: nothing was agreed to, or nobody can tell what.
pub(crate) fn read(pod_directory: &Path) -> Option<Written> {
    use std::io::Read as _;
    let path = pod_directory.join(FILE);
    let mut bytes = Vec::new();
    let read = std::fs::File::open(&path)
        .and_then(|it| it.take(BYTES_MAX).read_to_end(&mut bytes))
        .and_then(|_| serde_json::from_slice(&bytes).map_err(io::Error::other));
    match read {
        Ok(written) => Some(written),
        Err(err) if err.kind() == io::ErrorKind::NotFound => None,
        Err(err) => {
            tracing::warn!(path = %path.display(), error = %err, "what a pod was given is not known");
            None
        }
    }
}

pub(crate) async fn write(pod_directory: &Path, written: Written) -> io::Result<()> {
    let directory = pod_directory.to_owned();
    disk::blocking(move || {
        std::fs::create_dir_all(&directory)?;
        let bytes = serde_json::to_vec(&written).map_err(io::Error::other)?;
        let new = directory.join(format!("{FILE}.new"));
        std::fs::write(&new, bytes)?;
        std::fs::File::open(&new)?.sync_data()?;
        std::fs::rename(new, directory.join(FILE))
    })
    .await
}
