//! The error of every API call. It names a reason and identifies the object; how a reason becomes
//! an HTTP code is written here once, so that the server and the client agree.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use crate::field::FieldErrors;
use crate::names::{GroupKind, GroupResource};

/// `Status.reason`, with the HTTP code that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    Timeout,
    ServerTimeout,
    Unknown,
}

impl Reason {
    pub const ALL: &'static [Self] = &[
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::NotAcceptable,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Gone,
        Self::Expired,
        Self::RequestEntityTooLarge,
        Self::UnsupportedMediaType,
        Self::Invalid,
        Self::TooManyRequests,
        Self::InternalError,
        Self::ServiceUnavailable,
        Self::Timeout,
        Self::ServerTimeout,
        Self::Unknown,
    ];

    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::Unknown | Self::ServerTimeout => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Expired => "Expired",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::Invalid => "Invalid",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
            Self::ServerTimeout => "ServerTimeout",
            Self::Unknown => "",
        }
    }
}

/// A refused or failed API call. Boxed inside, so that `Result`s stay small.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError(Box<Parts>);

#[derive(Clone, Debug, PartialEq)]
struct Parts {
    reason: Reason,
    message: String,
    details: Option<StatusDetails>,
    /// `Status.metadata.continue` of an expired list.
    continue_token: Option<String>,
    source: Source,
    /// Code and reason that somebody else chose, who may have reasons of their own.
    said: Option<(u16, String)>,
}

/// Why, for the log of whoever made the error. It is no part of the wire form.
#[derive(Clone, Debug, Default)]
struct Source(Option<Arc<dyn Error + Send + Sync>>);

/// Two errors are the same when a client cannot tell them apart.
impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl ApiError {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            source: Source::default(),
            said: None,
        }))
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// The fault is ours. `what` is all that a client is told, hence words that were there before
    /// anything went wrong; what did is added by `with_source`.
    pub fn internal(what: &'static str) -> Self {
        Self::new(Reason::InternalError, format!("Internal error occurred: {what}"))
            .with_cause("", what, "")
    }

    pub fn unauthorized() -> Self {
        Self::new(Reason::Unauthorized, "Unauthorized")
    }

    /// `pods "web" not found`
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::about(Reason::NotFound, resource, name, format!("{resource} {name:?} not found"))
    }

    /// 404 for a path that no resource is served on.
    pub fn no_such_resource() -> Self {
        Self::new(Reason::NotFound, "the server could not find the requested resource")
            .with_details(StatusDetails::default())
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::about(
            Reason::AlreadyExists,
            resource,
            name,
            format!("{resource} {name:?} already exists"),
        )
    }

    /// `Operation cannot be fulfilled on pods "web": <why>`
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::about(Reason::Conflict, resource, name, message)
    }

    /// The optimistic lock failed: somebody else wrote in between.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// `deployments.apps "web" is forbidden: <why>`; without a name `deployments.apps is forbidden:
    /// <why>`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {name:?} is forbidden: {why}")
        };
        Self::about(Reason::Forbidden, resource, name, message)
    }

    /// `Deployment.apps "web" is invalid: <errors>`, with one cause per error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &FieldErrors) -> Self {
        let causes = errors
            .iter()
            .map(|it| StatusCause {
                reason: Some(it.cause.reason().to_owned()),
                message: Some(it.message.clone()),
                field: Some(it.path.to_string()),
            })
            .collect();
        Self::new(Reason::Invalid, format!("{kind} {name:?} is invalid: {errors}")).with_details(
            StatusDetails {
                group: non_empty(&kind.group),
                kind: non_empty(&kind.kind),
                name: non_empty(name),
                causes: Some(causes),
                ..StatusDetails::default()
            },
        )
    }

    /// 410 with the text that clients relist on.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::new(Reason::TooManyRequests, message).with_retry_after(retry_after_seconds)
    }

    fn about(reason: Reason, resource: &GroupResource, name: &str, message: String) -> Self {
        Self::new(reason, message).with_details(StatusDetails {
            group: non_empty(&resource.group),
            kind: non_empty(&resource.resource),
            name: non_empty(name),
            ..StatusDetails::default()
        })
    }

    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.0.details = Some(details);
        self
    }

    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let cause = StatusCause {
            reason: non_empty(reason),
            message: non_empty(message),
            field: non_empty(field),
        };
        self.0.details.get_or_insert_default().causes.get_or_insert_default().push(cause);
        self
    }

    /// Why it happened: for the log, never for the client.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Source(Some(source.into().into()));
        self
    }

    /// Names the lines of the server's log that say more, where a client is not told all. People
    /// see the message alone, programs look for the cause.
    #[must_use]
    pub fn with_audit_id(mut self, id: &str) -> Self {
        self.0.message.push_str(&format!(" (audit ID {id})"));
        self.with_cause("AuditID", id, "")
    }

    #[must_use]
    pub fn with_retry_after(mut self, seconds: i32) -> Self {
        self.0.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    #[must_use]
    pub fn without_retry_after(mut self) -> Self {
        if let Some(details) = &mut self.0.details {
            details.retry_after_seconds = None;
        }
        self
    }

    #[must_use]
    pub fn with_continue(mut self, token: String) -> Self {
        self.0.continue_token = Some(token);
        self
    }

    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    pub fn code(&self) -> u16 {
        self.0.said.as_ref().map_or_else(|| self.0.reason.code(), |it| it.0)
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn details(&self) -> Option<&StatusDetails> {
        self.0.details.as_ref()
    }

    pub fn retry_after_seconds(&self) -> Option<i32> {
        self.details().and_then(|it| it.retry_after_seconds)
    }

    /// Whether the same call may succeed later without anybody changing it.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.reason,
            Reason::TooManyRequests
                | Reason::InternalError
                | Reason::ServiceUnavailable
                | Reason::Timeout
                | Reason::ServerTimeout
        )
    }

    pub fn is_not_found(&self) -> bool {
        self.0.reason == Reason::NotFound
    }

    pub fn is_already_exists(&self) -> bool {
        self.0.reason == Reason::AlreadyExists
    }

    pub fn is_conflict(&self) -> bool {
        self.0.reason == Reason::Conflict
    }

    pub fn is_expired(&self) -> bool {
        matches!(self.0.reason, Reason::Expired | Reason::Gone)
    }

    /// The wire form.
    pub fn to_status(&self) -> Status {
        Status {
            code: Some(i32::from(self.code())),
            reason: non_empty(match &self.0.said {
                Some((_, reason)) => reason,
                None => self.0.reason.name(),
            }),
            message: Some(self.0.message.clone()),
            status: Some("Failure".to_owned()),
            details: self.0.details.clone(),
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta {
                continue_: self.0.continue_token.clone(),
                ..Default::default()
            },
        }
    }

    /// The refusal of somebody whom this server asked, to be passed on as it is: whatever reason it
    /// names, it is none of ours to act on.
    pub fn said(status: Status) -> Self {
        let code = status.code.and_then(|it| u16::try_from(it).ok()).unwrap_or(500);
        let reason = status.reason.clone().unwrap_or_default();
        let mut error = Self::from_status(status);
        error.0.reason = Reason::Unknown;
        error.0.said = Some((code, reason));
        error
    }

    /// Reads the wire form back; an unknown reason falls back to the HTTP code.
    pub fn from_status(status: Status) -> Self {
        let code = status.code.unwrap_or(500);
        let reason = Reason::ALL
            .iter()
            .copied()
            .find(|it| {
                status.reason.as_deref().is_some_and(|name| !name.is_empty() && name == it.name())
            })
            .or_else(|| Reason::ALL.iter().copied().find(|it| i32::from(it.code()) == code))
            .unwrap_or(Reason::Unknown);
        Self(Box::new(Parts {
            reason,
            message: status.message.unwrap_or_default(),
            details: status.details,
            continue_token: status.metadata.continue_,
            source: Source::default(),
            said: None,
        }))
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for ApiError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.0.as_deref().map(|it| it as &(dyn Error + 'static))
    }
}
