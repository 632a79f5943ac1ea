//! What the tests of both forms write.

use tracing::Subscriber;

use super::{AuditId, with_audit_id};

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
