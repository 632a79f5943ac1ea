//! AdmissionReview: the question, and what is taken for an answer.

use std::collections::BTreeMap;

use apimachinery::{ApiError, GroupVersionKind, GroupVersionResource, User};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::messages;
use crate::context::Context;
use crate::matching::{Invocation, namespace_of};
use crate::shown::Shown;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

impl Version {
    /// The first that the webhook names and we know.
    pub(super) fn of(named: &[String]) -> Option<Self> {
        named.iter().find_map(|it| match it.as_str() {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    kind: &'static str,
    api_version: &'static str,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: &'a str,
    kind: Kind<'a>,
    resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Kind<'a>,
    request_resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    user_info: UserInfo<'a>,
    dry_run: bool,
    options: Option<Value>,
}

#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> From<&'a GroupVersionKind> for Kind<'a> {
    fn from(it: &'a GroupVersionKind) -> Self {
        Self { group: &it.group, version: &it.version, kind: &it.kind }
    }
}

#[derive(Serialize)]
struct Resource<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

impl<'a> From<&'a GroupVersionResource> for Resource<'a> {
    fn from(it: &'a GroupVersionResource) -> Self {
        Self { group: &it.group, version: &it.version, resource: &it.resource }
    }
}

#[derive(Serialize)]
struct UserInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

impl<'a> From<&'a User> for UserInfo<'a> {
    fn from(it: &'a User) -> Self {
        Self { username: &it.name, uid: &it.uid, groups: &it.groups, extra: &it.extra }
    }
}

/// Of the request and of what is around it.
const END: &[u8] = b"}}";

/// The question, as JSON.
pub(super) fn question(
    version: Version,
    uid: &str,
    (context, invocation, shown): (&Context<'_>, &Invocation, &Shown),
) -> Result<Bytes, serde_json::Error> {
    let request = &context.request;
    let requested_kind = match request.has_own_kind() {
        true => request.kind_of_object(),
        false => request.requested.gvk(),
    };
    let requested = request.requested.gvr();
    let question = Question {
        kind: "AdmissionReview",
        api_version: version.api_version(),
        request: Request {
            uid,
            kind: (&invocation.kind).into(),
            resource: (&invocation.resource).into(),
            sub_resource: request.subresource,
            request_kind: (&requested_kind).into(),
            request_resource: (&requested).into(),
            request_sub_resource: request.subresource,
            name: context.name(),
            namespace: namespace_of(context),
            operation: request.operation.text(),
            user_info: request.user.into(),
            dry_run: request.is_dry_run(),
            options: request.options.to_value(request.operation),
        },
    };
    let mut body = serde_json::to_vec(&question)?;
    // They are JSON already, and may be large: the end of the question is after them.
    body.truncate(body.len() - END.len());
    for (field, json) in [("object", &shown.object), ("oldObject", &shown.old)] {
        let json = json.as_ref().map_or(&b"null"[..], |it| it.bytes());
        body.reserve(field.len() + json.len() + 2 * END.len() + 4);
        body.extend_from_slice(b",\"");
        body.extend_from_slice(field.as_bytes());
        body.extend_from_slice(b"\":");
        body.extend_from_slice(json);
    }
    body.extend_from_slice(END);
    Ok(body.into())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    kind: Option<String>,
    api_version: Option<String>,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<Status>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) is_allowed: bool,
    pub(super) status: Option<Status>,
    /// A JSON patch; empty if there is nothing to change.
    pub(super) patch: Vec<u8>,
    pub(super) audit_annotations: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
}

/// An answer to the question that was asked, or what is wrong with it, as `failed to call webhook`
/// or `received invalid webhook response` go on.
pub(super) fn answer(
    version: Version,
    (uid, is_mutating): (&str, bool),
    body: &[u8],
) -> Result<Answer, String> {
    let said: Said = serde_json::from_slice(body).map_err(|err| {
        format!("failed to call webhook: couldn't get version/kind; json parse error: {err}")
    })?;
    let invalid = |why: &str| format!("received invalid webhook response: {why}");
    let header = (said.api_version.unwrap_or_default(), said.kind.unwrap_or_default());
    let response = said.response.ok_or_else(|| invalid("webhook response was absent"))?;
    let patch = match &response.patch {
        Some(patch) => STANDARD
            .decode(patch)
            .map_err(|err| format!("failed to call webhook: response.patch is no base64: {err}"))?,
        None => Vec::new(),
    };
    if version == Version::V1 {
        let given = response.uid.as_deref().unwrap_or_default();
        check(uid, given, &header).map_err(|why| invalid(&why))?;
        check_patch(is_mutating, &patch, response.patch_type.as_deref())
            .map_err(|why| invalid(&why))?;
    }
    Ok(Answer {
        is_allowed: response.allowed.unwrap_or_default(),
        status: response.status,
        patch: if is_mutating { patch } else { Vec::new() },
        audit_annotations: response.audit_annotations.unwrap_or_default(),
        warnings: response.warnings.unwrap_or_default(),
    })
}

/// Answers of v1beta1 were never held to this.
fn check(uid: &str, given: &str, (api_version, kind): &(String, String)) -> Result<(), String> {
    if given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let wanted = Version::V1.api_version();
    if (api_version.as_str(), kind.as_str()) == (wanted, "AdmissionReview") {
        return Ok(());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Err(format!(
        "expected webhook response of {wanted}, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
    ))
}

fn check_patch(is_mutating: bool, patch: &[u8], form: Option<&str>) -> Result<(), String> {
    match (is_mutating, patch.is_empty(), form) {
        (false, false, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, true, Some(_)) => {
            Err("validating webhook may not return response.patchType".to_owned())
        }
        (true, false, None) => {
            Err("webhook returned response.patch but not response.patchType".to_owned())
        }
        (true, true, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".to_owned())
        }
        (true, false, Some("")) => {
            Err("webhook returned invalid response.patchType of \"\"".to_owned())
        }
        (true, false, Some(form)) if form != "JSONPatch" => {
            Err(format!("unsupported patch type {form:?}"))
        }
        _ => Ok(()),
    }
}

/// What cannot be put as a question is a fault of ours.
pub(super) fn unaskable(err: &serde_json::Error) -> ApiError {
    messages::internal(&format!("could not create admission objects: {err}"))
}
