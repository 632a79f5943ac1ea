//! What was decided about a request, and when.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition as Condition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::codec;

pub const APPROVED: &str = "Approved";
pub const DENIED: &str = "Denied";
pub const FAILED: &str = "Failed";

/// What was decided so far.
pub fn all(request: &CertificateSigningRequest) -> &[Condition] {
    let status = request.status.as_ref();
    status.and_then(|it| it.conditions.as_deref()).unwrap_or_default()
}

pub(super) fn of<'a>(request: &'a CertificateSigningRequest, type_: &str) -> Vec<&'a Condition> {
    all(request).iter().filter(|it| it.type_ == type_).collect()
}

/// Who signs leaves what was decided as it is. Where they have added or removed a decision, it
/// stays so, and is refused.
pub(super) fn keep_approval(
    request: &mut CertificateSigningRequest,
    stored: &CertificateSigningRequest,
) {
    for type_ in [APPROVED, DENIED] {
        let old: Vec<Condition> = of(stored, type_).into_iter().cloned().collect();
        let conditions = request.status.as_mut().and_then(|it| it.conditions.as_mut());
        let new: Vec<&mut Condition> =
            conditions.into_iter().flatten().filter(|it| it.type_ == type_).collect();
        if new.len() == old.len() {
            for (new, old) in new.into_iter().zip(old) {
                *new = old;
            }
        }
    }
}

/// What was decided without saying when was decided now, or when it was first.
pub fn fill_in_times(
    request: &mut CertificateSigningRequest,
    stored: &CertificateSigningRequest,
    now: Timestamp,
) {
    let is_none = |it: &Option<Time>| it.as_ref().is_none_or(|it| codec::is_zero_time(it.0));
    let conditions = request.status.as_mut().and_then(|it| it.conditions.as_mut());
    for condition in conditions.into_iter().flatten() {
        if is_none(&condition.last_update_time) {
            condition.last_update_time = Some(Time(now));
        }
        if is_none(&condition.last_transition_time) {
            let is_same = |it: &&Condition| {
                it.type_ == condition.type_
                    && it.status == condition.status
                    && !is_none(&it.last_transition_time)
            };
            let first = all(stored).iter().find(is_same);
            let first = first.and_then(|it| it.last_transition_time.clone());
            condition.last_transition_time = Some(first.unwrap_or(Time(now)));
        }
    }
}
