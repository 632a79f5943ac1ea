//! The way of one certificate: asked for, waited for, held, and asked for again before it ends. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::certificates::PodCertificateRequest;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1beta1::PodCertificateRequestStatus;

use crate::pod_facts::Credential;

/// A request that does not show up within this time was deleted by somebody.
const LOST_AFTER: Duration = Duration::from_secs(600);
/// A certificate that is not renewed by then is told of.
const OVERDUE_AFTER: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum State {
    #[default]
    Nothing,
    Asked(Asked),
    Held(Held),
    /// Nobody will sign it: the text says why.
    Over(String),
}

/// A request that is under way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) name: String,
    /// Of the key that it is for.
    pub(super) key_pem: String,
    pub(super) at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) credential: Credential,
    pub(super) renew_at: Timestamp,
    pub(super) ends: Timestamp,
    pub(super) renewal: Option<Asked>,
    pub(super) is_told_overdue: bool,
    pub(super) is_told_ended: bool,
}

/// An event about the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What is next.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) state: State,
    /// A new request is due; [`asked`] says what follows from it.
    pub(super) must_ask: bool,
    /// When to look again, if nothing changes before.
    pub(super) wake: Option<Timestamp>,
    pub(super) told: Vec<Told>,
}

/// `find` looks requests up by name; `jitter` keeps renewals of many pods apart.
pub(super) fn step(
    state: State,
    find: impl Fn(&str) -> Option<Arc<PodCertificateRequest>>,
    now: Timestamp,
    jitter: Duration,
) -> Step {
    let mut told = Vec::new();
    let state = match state {
        State::Asked(asked) => look(asked, None, &find, (now, jitter), &mut told),
        State::Held(mut held) => match held.renewal.take() {
            Some(asked) => look(asked, Some(held), &find, (now, jitter), &mut told),
            None => State::Held(held),
        },
        other => other,
    };
    finish(state, now, told)
}

/// After a request was made.
pub(super) fn asked(state: State, asked: Asked) -> State {
    match state {
        State::Held(held) => State::Held(Held { renewal: Some(asked), ..held }),
        State::Nothing | State::Asked(_) | State::Over(_) => State::Asked(asked),
    }
}

fn look(
    asked: Asked,
    held: Option<Held>,
    find: &impl Fn(&str) -> Option<Arc<PodCertificateRequest>>,
    (now, jitter): (Timestamp, Duration),
    told: &mut Vec<Told>,
) -> State {
    let is_lost = after(asked.at, LOST_AFTER) <= now;
    let Some(request) = find(&asked.name) else {
        return match (is_lost, held) {
            (true, Some(held)) => State::Held(held),
            (true, None) => State::Nothing,
            (false, Some(held)) => State::Held(Held { renewal: Some(asked), ..held }),
            (false, None) => State::Asked(asked),
        };
    };
    let absent = PodCertificateRequestStatus::default();
    let status = request.status.as_ref().unwrap_or(&absent);
    for condition in status.conditions.iter().flatten() {
        let (kind, did) = match condition.type_.as_str() {
            "Denied" => ("Denied", "was denied"),
            "Failed" => ("Failed", "failed"),
            "Issued" => return issued(asked, status, jitter),
            _ => continue,
        };
        let (reason, message) = (&condition.reason, &condition.message);
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let name = format!("{namespace}/{}", asked.name);
        told.push(Told {
            reason: kind,
            message: format!(
                "PodCertificateRequest {name} {did}, reason={reason:?}, message={message:?}"
            ),
        });
        let kind = kind.to_lowercase();
        return State::Over(format!(
            "PodCertificateRequest was permanently {kind}: reason={reason:?} message={message:?}"
        ));
    }
    match held {
        Some(held) => State::Held(Held { renewal: Some(asked), ..held }),
        None => State::Asked(asked),
    }
}

fn issued(asked: Asked, status: &PodCertificateRequestStatus, jitter: Duration) -> State {
    let time = |it: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        it.as_ref().map_or(Timestamp::MAX, |it| it.0)
    };
    let chain = status.certificate_chain.as_deref().unwrap_or_default();
    State::Held(Held {
        credential: Credential {
            key_pem: asked.key_pem,
            chain_pem: api::certificates::plain_chain(chain),
        },
        renew_at: after(time(&status.begin_refresh_at), jitter),
        ends: time(&status.not_after),
        renewal: None,
        is_told_overdue: false,
        is_told_ended: false,
    })
}

fn finish(state: State, now: Timestamp, mut told: Vec<Told>) -> Step {
    let mut tell = |reason, message: &str| {
        told.push(Told { reason, message: message.to_owned() });
        true
    };
    match state {
        State::Nothing => Step { state, must_ask: true, wake: None, told },
        State::Over(_) => Step { state, must_ask: false, wake: None, told },
        State::Asked(asked) => {
            let wake = Some(after(asked.at, LOST_AFTER));
            Step { state: State::Asked(asked), must_ask: false, wake, told }
        }
        State::Held(mut held) => {
            let overdue = after(held.renew_at, OVERDUE_AFTER);
            if !held.is_told_overdue && overdue <= now {
                held.is_told_overdue =
                    tell("CertificateOverdueForRefresh", "PodCertificate refresh overdue");
            }
            if !held.is_told_ended && held.ends <= now {
                held.is_told_ended = tell("CertificateExpired", "PodCertificate expired");
            }
            let must_ask = held.renewal.is_none() && held.renew_at <= now;
            let lost = held.renewal.as_ref().map(|it| after(it.at, LOST_AFTER));
            let wakes = [Some(held.renew_at), Some(overdue), Some(held.ends), lost];
            let wake = wakes.into_iter().flatten().filter(|it| *it > now).min();
            Step { state: State::Held(held), must_ask, wake, told }
        }
    }
}

fn after(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    fn request(status: Value) -> Arc<PodCertificateRequest> {
        let spec = json!({
            "nodeName": "", "nodeUID": "", "podName": "", "podUID": "", "serviceAccountName": "",
            "serviceAccountUID": "", "signerName": "", "stubPKCS10Request": "",
        });
        let metadata = json!({ "namespace": "shop", "name": "req-1" });
        let request = json!({ "metadata": metadata, "spec": spec, "status": status });
        Arc::new(serde_json::from_value(request).unwrap())
    }

    fn condition(kind: &str) -> Value {
        json!({ "type": kind, "status": "True", "reason": "Because", "message": "so",
            "lastTransitionTime": "1970-01-01T00:00:00Z" })
    }

    fn issued_status() -> Value {
        json!({ "conditions": [condition("Issued")], "certificateChain": "",
            "beginRefreshAt": "1970-01-01T01:00:00Z", "notAfter": "1970-01-01T02:00:00Z" })
    }

    fn waiting(key: &str, minutes: i64) -> Asked {
        Asked { name: "req-1".to_owned(), key_pem: key.to_owned(), at: at(minutes) }
    }

    /// What is next, as text.
    fn next(state: State, found: Option<Value>, minutes: i64) -> (State, String) {
        let found = found.map(request);
        let step = step(state, |_| found.clone(), at(minutes), Duration::from_secs(60));
        let state = match &step.state {
            State::Nothing => "nothing".to_owned(),
            State::Asked(_) => "asked".to_owned(),
            State::Over(why) => format!("over ({why})"),
            State::Held(held) => {
                format!(
                    "held {}{}",
                    held.credential.key_pem,
                    if held.renewal.is_some() { "+" } else { "" }
                )
            }
        };
        let wake = step.wake.map(|it| format!(" until {}", it.as_second() / 60));
        let told: String = step.told.iter().map(|it| format!(" !{}", it.reason)).collect();
        let ask = if step.must_ask { " ask" } else { "" };
        (step.state, format!("{state}{ask}{}{told}", wake.unwrap_or_default()))
    }

    #[test]
    fn a_certificate_is_asked_for_and_waited_for() {
        assert_eq!(next(State::Nothing, None, 0).1, "nothing ask");
        let wait = || State::Asked(waiting("k1", 0));
        assert_eq!(next(wait(), None, 5).1, "asked until 10");
        assert_eq!(next(wait(), Some(json!({})), 5).1, "asked until 10");
        assert_eq!(next(wait(), None, 10).1, "nothing ask");
        assert_eq!(next(wait(), Some(issued_status()), 5).1, "held k1 until 61");
        let over =
            "PodCertificateRequest was permanently denied: reason=\"Because\" message=\"so\"";
        let denied = json!({ "conditions": [condition("Denied")] });
        let (state, shown) = next(wait(), Some(denied), 5);
        assert_eq!(shown, format!("over ({over}) !Denied"));
        assert_eq!(next(state, None, 500).1, format!("over ({over})"));
    }

    #[test]
    fn a_certificate_is_renewed_and_kept_until_the_new_one_is_there() {
        let (held, _) = next(State::Asked(waiting("k1", 0)), Some(issued_status()), 5);
        assert_eq!(next(held.clone(), None, 60).1, "held k1 until 61");
        let (due, shown) = next(held, None, 61);
        assert_eq!(shown, "held k1 ask until 71");
        let renewing = asked(due, waiting("k2", 61));
        assert_eq!(next(renewing.clone(), Some(json!({})), 62).1, "held k1+ until 71");
        let (late, shown) = next(renewing.clone(), Some(json!({})), 71);
        assert_eq!(shown, "held k1+ until 120 !CertificateOverdueForRefresh");
        assert_eq!(next(late, Some(json!({})), 120).1, "held k1+ !CertificateExpired");
        assert_eq!(
            next(renewing.clone(), Some(issued_status()), 62).1.split(' ').nth(1),
            Some("k2")
        );
        // Somebody deleted the request.
        assert_eq!(
            next(renewing, None, 71).1,
            "held k1 ask until 120 !CertificateOverdueForRefresh"
        );
    }
}
