//! When a request for a certificate has been there for long enough. Pure.

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{
    APPROVED, DENIED, FAILED, certificate_end, decisions,
};
use jiff::{SignedDuration, Timestamp};

use crate::certificates::{has, is_issued};
use crate::expiry::Verdict;

/// After the decision that ended it.
const DECIDED: SignedDuration = SignedDuration::from_hours(1);
/// For whoever is to decide, and then for whoever is to sign.
const OPEN: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn plan(request: &CertificateSigningRequest, now: Timestamp) -> Verdict {
    if request.metadata.deletion_timestamp.is_some() {
        return Verdict::Keep;
    }
    let Some(due) = due(request) else { return Verdict::Keep };
    Verdict::of(due, now)
}

fn due(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let after = |at: Timestamp, time| at.saturating_add(time).unwrap_or(Timestamp::MAX);
    let decisions = decisions(request);
    if decisions.is_empty() {
        let created = request.metadata.creation_timestamp.as_ref();
        return created.map(|it| after(it.0, OPEN));
    }
    let is_issued = is_issued(request);
    let ends = decisions.iter().filter_map(|it| {
        let time = match it.type_.as_str() {
            DENIED | FAILED => DECIDED,
            APPROVED if is_issued => DECIDED,
            APPROVED => OPEN,
            _ => return None,
        };
        Some(after(it.last_update_time.as_ref()?.0, time))
    });
    let expiry = has(request, APPROVED).then(|| certificate_end(request)).flatten();
    ends.chain(expiry).min()
}
