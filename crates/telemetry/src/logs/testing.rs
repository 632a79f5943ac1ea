//! What the tests of both forms write, and where to.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;

use super::{AuditId, with_audit_id};

#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(super) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).expect("UTF-8")
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A warning within a request, and an error outside of any.
pub(super) async fn audited(subscriber: impl Subscriber + Send + Sync) {
    let _guard = tracing::subscriber::set_default(subscriber);
    let work = async {
        tokio::task::yield_now().await;
        tracing::warn!(pod = "web \"0\"", attempt = 3, "refused");
    };
    with_audit_id(AuditId::new("4f1c"), work).await;
    tracing::error!(error = "no disk", "broken");
}
