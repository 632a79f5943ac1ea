//! The condition Available: what this server serves itself is there; what another one should serve
//! is not, since requests are not passed on.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceCondition;

use super::APIService;
use crate::check::text;

const AVAILABLE: &str = "Available";

/// What holds, without its time.
fn present(service: &APIService) -> APIServiceCondition {
    let is_local = service.spec.as_ref().is_none_or(|it| it.service.is_none());
    let (status, reason, message) = match is_local {
        true => ("True", "Local", "Local APIServices are always available"),
        false => (
            "False",
            "NotProxied",
            "requests for this group and version are not passed on: this server serves only its own APIs",
        ),
    };
    APIServiceCondition {
        type_: AVAILABLE.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: None,
    }
}

/// Makes the condition what holds. Its time changes with its status alone.
pub fn set(service: &mut APIService, now: Timestamp) {
    let mut wanted = present(service);
    let status = service.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    let now = || Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    match conditions.iter_mut().find(|it| it.type_ == AVAILABLE) {
        None => {
            wanted.last_transition_time = now();
            conditions.push(wanted);
        }
        Some(found) => {
            let is_same = found.status == wanted.status;
            let kept = found.last_transition_time.take().filter(|_| is_same);
            wanted.last_transition_time = kept.or_else(now);
            *found = wanted;
        }
    }
}

/// `True`, or what is the matter.
pub(super) fn cell(service: &APIService) -> String {
    let conditions = service.status.as_ref().and_then(|it| it.conditions.as_ref());
    let found = conditions.into_iter().flatten().find(|it| it.type_ == AVAILABLE);
    match found {
        None => "Unknown".to_owned(),
        Some(it) if it.status == "True" || text(it.reason.as_ref()).is_empty() => it.status.clone(),
        Some(it) => format!("{} ({})", it.status, text(it.reason.as_ref())),
    }
}
