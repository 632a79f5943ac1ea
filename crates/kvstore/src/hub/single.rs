//! A watch with a reader of its own: a group of one.

use std::future::poll_fn;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::reader::Reader;
use super::{History, Hub};
use crate::{Batch, Error, Revision, Told, Watch, WatchId, WatchRequest, Watches as _};

const ONLY: WatchId = WatchId(0);

pub(super) struct Single {
    reader: Reader,
}

impl Single {
    pub(super) fn new(
        hub: Arc<Hub>,
        history: Option<Arc<dyn History>>,
        request: &WatchRequest,
    ) -> Result<Self, Error> {
        let mut reader = Reader::new(hub, history);
        reader.add_now(ONLY, request)?;
        Ok(Self { reader })
    }

    async fn next_batch(&mut self) -> Result<Batch, Error> {
        match poll_fn(|context| self.reader.poll_told(context)).await? {
            Told::Batch { id: _, batch } => Ok(batch),
            Told::Progress(revision) => Ok(Batch { events: Vec::new(), revision }),
            Told::Failed { id: _, error } => Err(error),
        }
    }
}

impl Watch for Single {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(self.next_batch())
    }

    fn progress(&self) -> Revision {
        self.reader.progress(ONLY).expect("it is never removed")
    }

    fn request_progress(&mut self) {
        self.reader.request_progress();
    }
}
