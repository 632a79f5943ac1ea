//! When a request for a pod's certificate has been there for long enough. Pure.

use api::certificates::PodCertificateRequest;
use jiff::{SignedDuration, Timestamp};

use crate::expiry::Verdict;

const LIFE: SignedDuration = SignedDuration::from_mins(15);

pub(super) fn plan(request: &PodCertificateRequest, now: Timestamp) -> Verdict {
    let meta = &request.metadata;
    let created = meta.creation_timestamp.as_ref().filter(|_| meta.deletion_timestamp.is_none());
    let Some(created) = created else { return Verdict::Keep };
    Verdict::of(created.0.saturating_add(LIFE).unwrap_or(Timestamp::MAX), now)
}
