//! Whether a request is to be signed, and for how long. Pure.

use std::time::Duration;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{
    APPROVED, DENIED, FAILED, asked, decisions, verified,
};
use jiff::{SignedDuration, Timestamp};

use crate::certificates::{CertificateTerms, check, has, is_issued, since, usages};

/// Clocks of other machines may be behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// What is good for less than this ends as late as was asked for, in spite of its early beginning.
const SHORT: Duration = Duration::from_secs(8 * 3600);
/// Twice the time that it begins early.
const DURATION_MIN: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    /// The signer does not take it, and never will.
    Fail(String),
    /// Subject to the end of the authority: see [`terms`].
    Sign(CertificateTerms),
}

pub(super) fn plan(
    request: &CertificateSigningRequest,
    duration_max: Duration,
    now: Timestamp,
) -> Action {
    let is_approved = has(request, APPROVED) && !has(request, DENIED);
    let has_failed = decisions(request).iter().any(|it| it.type_ == FAILED && it.status == "True");
    if !is_approved || has_failed || is_issued(request) {
        return Action::Nothing;
    }
    let text = &request.spec.request;
    let asked = match verified(text).and_then(|_| asked(text)) {
        Ok(asked) => asked,
        Err(why) => return Action::Fail(why),
    };
    if let Err(why) = check(&request.spec.signer_name, &asked, usages(request)) {
        return Action::Fail(why);
    }
    let duration = duration(request.spec.expiration_seconds, duration_max);
    let late = if duration < SHORT { SignedDuration::ZERO } else { BACKDATE };
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    let end = now.saturating_add(duration).and_then(|it| it.saturating_sub(late));
    Action::Sign(CertificateTerms {
        usages: usages(request).to_vec(),
        not_before: now.checked_sub(BACKDATE).unwrap_or(now),
        not_after: end.unwrap_or(Timestamp::MAX),
        since: since(request),
    })
}

fn duration(asked_seconds: Option<i32>, max: Duration) -> Duration {
    let Some(seconds) = asked_seconds else { return max };
    let asked = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    if asked > max { max } else { asked.max(DURATION_MIN) }
}

/// Nothing holds for longer than the authority.
pub(super) fn terms(
    wish: CertificateTerms,
    authority_end: Timestamp,
    now: Timestamp,
) -> Result<CertificateTerms, String> {
    if wish.not_before >= authority_end {
        return Err(format!("the signer has expired: NotAfter={authority_end}"));
    }
    if now >= authority_end {
        let why = "refusing to sign a certificate that expired in the past";
        return Err(format!("{why}: NotAfter={authority_end}"));
    }
    Ok(CertificateTerms { not_after: wish.not_after.min(authority_end), ..wish })
}
