//! A write that is only tried, answered by what admission does about it, step by step: for clients
//! that ask by the header `Xebec-Explain: admission` together with `dryRun=All`. Servers that do not
//! know the header answer the dry run.
//!
//! It takes the way of every write, so that whoever asks must be allowed to make it. Of policies
//! and webhooks that they may not read they are told no more than any refusal tells them.

use std::collections::BTreeMap;

use admission::Observer;
use admission::observer::{By, Report};
use apimachinery::{ApiError, User};
use authz::Attributes;
use client::Verb;
use http::{HeaderMap, Response};

use super::path::ResourcePath;
use super::query::Query;
use super::{Body, status};
use crate::pipeline::{Answer, Core, Outcome};

const HEADER: &str = "xebec-explain";
const WHAT: &str = "admission";
const GROUP: &str = "admissionregistration.k8s.io";

pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

/// Whether it can be explained.
pub(super) fn validate(
    verb: Verb,
    target: &ResourcePath,
    query: &Query,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    if headers.get(HEADER).is_none_or(|it| it != WHAT) {
        let why = format!("the header {HEADER:?} must be {WHAT:?}");
        return Err(ApiError::bad_request(why));
    }
    if !matches!(verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete) {
        let why = format!(
            "the verb {:?} cannot be explained: choose create, update, patch or delete",
            verb.name()
        );
        return Err(ApiError::bad_request(why));
    }
    if let Some(subresource) = &target.subresource {
        let why = format!("writes of {subresource:?} cannot be explained, those of objects can");
        return Err(ApiError::bad_request(why));
    }
    if query.get("dryRun") != Some("All") {
        let why = "only what is not carried out can be explained: add dryRun=All";
        return Err(ApiError::bad_request(why));
    }
    Ok(())
}

/// What did not come as far as admission is refused as ever.
pub(super) fn answer(
    core: &Core,
    user: &User,
    (notes, observer): (&admission::Notes, &Observer),
    outcome: Result<Answer, ApiError>,
) -> Result<Response<Body>, ApiError> {
    let answer = match outcome {
        Err(err) if !observer.has_begun() => return Err(err),
        answer => answer,
    };
    let mut report = observer.report(answer.as_ref().err());
    report.warnings = notes.warnings();
    if let Ok(Answer { outcome: Outcome::Object(object), .. }) = &answer {
        report.object = serde_json::from_slice(&object.bytes).ok();
    }
    redact(core, user, &mut report);
    let unwritable = |err| ApiError::internal("the report cannot be written").with_source(err);
    Ok(status::json(200, serde_json::to_vec(&report).map_err(unwritable)?))
}

/// Each configuration is asked about once.
fn redact(core: &Core, user: &User, report: &mut Report) {
    let known = std::cell::RefCell::new(BTreeMap::new());
    report.redact(|by| {
        let (By::Policy { resource, name, .. }
        | By::Webhook { resource, configuration: name, .. }) = by;
        *known.borrow_mut().entry((resource.clone(), name.clone())).or_insert_with(|| {
            let attributes = Attributes::resource("get", GROUP, resource).within("", name);
            core.authorizer.decide(user, &attributes).is_allowed()
        })
    });
}
