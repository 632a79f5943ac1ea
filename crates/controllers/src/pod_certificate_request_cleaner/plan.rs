//! When a request for a pod's certificate has been there for long enough. Pure.

use std::time::Duration;

use api::certificates::PodCertificateRequest;
use jiff::Timestamp;

use crate::pods::remaining;

const LIFE: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// It is being deleted already.
    Keep,
    Wait(Duration),
    Delete,
}

pub(super) fn plan(request: &PodCertificateRequest, now: Timestamp) -> Verdict {
    let meta = &request.metadata;
    let created = meta.creation_timestamp.as_ref().filter(|_| meta.deletion_timestamp.is_none());
    let Some(created) = created else { return Verdict::Keep };
    match remaining(created.0, LIFE, now) {
        Duration::ZERO => Verdict::Delete,
        left => Verdict::Wait(left),
    }
}
