//! A container's log as a client reads it: the lines of the CRI files of one run, oldest first,
//! across rotation, each once.
//!
//! Reading is pulled by the connection: a slow client holds the reader back, nothing is buffered
//! for it.

mod entry;
mod files;
mod follow;
mod options;
mod reader;
mod tail;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use lifecycle::Shutdown;
use node_api::{ContainerId, Containers, Events};

pub(crate) use options::Options;

use crate::folder::Folder;
use follow::Ending;
use reader::{Reader, Step};

/// Where the lines come from, and how to know that no more will come.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) container: ContainerId,
    pub(crate) containers: Arc<dyn Containers>,
    pub(crate) events: Events,
}

struct Log {
    /// `None` while it reads on another thread.
    reader: Option<Reader>,
    following: Option<(Folder, Ending)>,
    shutdown: Shutdown,
}

/// Finds where to begin, so that what goes wrong there can still be told by a status code.
pub(crate) async fn open(
    source: Source,
    options: Options,
    shutdown: Shutdown,
) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
    // Watching begins before reading, so that nothing falls between.
    let following = match options.follow {
        true => {
            let watcher = follow::watch(&source.path)?;
            Some((watcher, Ending::new(source.container, source.containers, source.events)))
        }
        false => None,
    };
    let reader = blocking(move || Reader::open(source.path, options)).await?;
    let log = Log { reader: Some(reader), following, shutdown };
    Ok(stream::unfold(log, |mut log| async {
        let next = log.next().await.transpose()?;
        Some((next, log))
    })
    .boxed())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

impl Log {
    /// `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            // It is gone after an error: that was the end.
            let Some(mut reader) = self.reader.take() else { return Ok(None) };
            let (reader, step) = blocking(move || {
                let step = reader.step()?;
                Ok((reader, step))
            })
            .await?;
            self.reader = Some(reader);
            match step {
                Step::Lines(bytes) if bytes.is_empty() => {}
                Step::Lines(bytes) => return Ok(Some(bytes)),
                Step::Full => return Ok(None),
                Step::Empty => {
                    let Some((watcher, ending)) = &mut self.following else { return Ok(None) };
                    if ending.is_over() {
                        return Ok(None);
                    }
                    tokio::select! {
                        biased;
                        () = self.shutdown.cancelled() => return Ok(None),
                        changed = watcher.changed() => changed?,
                        // Read once more: its last lines may have come after the last look.
                        () = ending.wait() => {}
                    }
                }
            }
        }
    }
}
