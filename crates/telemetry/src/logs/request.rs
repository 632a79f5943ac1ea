//! The request that the present task works for. Kept beside the task and not in a span, so that a
//! request which writes no line costs two assignments each time it is polled, at every level.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// As the header `Audit-ID` has it. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditId(Arc<str>);

impl AuditId {
    /// Clients may choose it; upstream writes no more of it to its log.
    const LENGTH_MAX: usize = 64;

    pub fn new(text: &str) -> Self {
        let end = text.char_indices().nth(Self::LENGTH_MAX).map_or(text.len(), |it| it.0);
        Self(text[..end].into())
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

tokio::task_local! {
    static PRESENT: AuditId;
}

/// Lines that `work` writes have the id; those of tasks that it starts do not.
pub fn with_audit_id<F: Future>(id: AuditId, work: F) -> impl Future<Output = F::Output> {
    PRESENT.scope(id, work)
}

/// Of the request that the present line belongs to.
pub(super) fn present() -> Option<AuditId> {
    PRESENT.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::{AuditId, present, with_audit_id};

    #[tokio::test]
    async fn each_request_has_its_own_id() {
        let seen = || present().map(|it| it.to_string());
        let work = |id: &str| {
            with_audit_id(AuditId::new(id), async move {
                tokio::task::yield_now().await;
                seen()
            })
        };
        let (one, two) = tokio::join!(work("one"), work("two"));
        assert_eq!((one.as_deref(), two.as_deref(), seen()), (Some("one"), Some("two"), None));
    }

    #[test]
    fn a_client_s_id_is_cut() {
        assert_eq!(AuditId::new(&"ä".repeat(100)).to_string(), "ä".repeat(64));
    }
}
