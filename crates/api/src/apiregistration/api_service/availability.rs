//! The condition Available: what this server serves itself is there; what another one serves is if
//! it was found and answered. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceCondition;

use super::APIService;
use crate::check::text;

const AVAILABLE: &str = "Available";
const REASON_LOCAL: &str = "Local";

/// What a look at an APIService found, in the words that clients know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub is_available: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Verdict {
    pub fn local() -> Self {
        let message = "Local APIServices are always available".to_owned();
        Self { is_available: true, reason: REASON_LOCAL, message }
    }

    pub fn passed() -> Self {
        Self { is_available: true, reason: "Passed", message: "all checks passed".to_owned() }
    }

    pub fn refused(reason: &'static str, message: String) -> Self {
        Self { is_available: false, reason, message }
    }
}

/// Whether this server serves it itself.
pub fn is_local(service: &APIService) -> bool {
    service.spec.as_ref().is_none_or(|it| it.service.is_none())
}

/// Whether it says so of itself.
pub fn is_available(service: &APIService) -> bool {
    condition(service).is_some_and(|it| it.status == "True")
}

/// Why it is, or is not.
pub fn reason(service: &APIService) -> Option<&str> {
    condition(service)?.reason.as_deref()
}

/// Whether another server is known to answer for it.
pub fn is_reachable(service: &APIService) -> bool {
    let found = condition(service);
    found.is_some_and(|it| it.status == "True" && text(it.reason.as_ref()) != REASON_LOCAL)
}

/// Makes the condition what holds. Its time changes with its status alone.
pub fn set(service: &mut APIService, verdict: Verdict, now: Timestamp) {
    let mut wanted = APIServiceCondition {
        type_: AVAILABLE.to_owned(),
        status: if verdict.is_available { "True" } else { "False" }.to_owned(),
        reason: Some(verdict.reason.to_owned()),
        message: Some(verdict.message),
        last_transition_time: None,
    };
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

fn condition(service: &APIService) -> Option<&APIServiceCondition> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == AVAILABLE)
}

/// `True`, or what is the matter.
pub(super) fn cell(service: &APIService) -> String {
    match condition(service) {
        None => "Unknown".to_owned(),
        Some(it) if it.status == "True" || text(it.reason.as_ref()).is_empty() => it.status.clone(),
        Some(it) => format!("{} ({})", it.status, text(it.reason.as_ref())),
    }
}
