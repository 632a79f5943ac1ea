//! The one place that knows etcd's error texts: what they mean for a call, and what the store
//! answers.

use std::sync::Arc;

use kvstore::Error;

use crate::wire::channel::CallError;
use crate::wire::{Code, Status};

/// What a failed call means for what was asked.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Did not happen, and asking this or another member again can help.
    Again { why: String },
    /// Did not happen: the token is not known (any more).
    Token,
    /// Did not happen, and asking again would not help.
    Refused(Refusal),
    /// Sent, and no word whether it happened, or will yet.
    Unknown { why: String },
}

/// What the cluster says no to.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    Compacted,
    Future,
    DuplicateKey,
    KeyNotFound,
    LeaseNotFound,
    LeaseExists,
    TooLarge,
    TooManyOps,
    ReadOnly {
        why: String,
    },
    /// Anything else, in etcd's words.
    Other(Status),
}

/// Texts after which nothing was written, with what they mean.
const REFUSALS: &[(&str, Refusal)] = &[
    ("etcdserver: mvcc: required revision has been compacted", Refusal::Compacted),
    ("etcdserver: mvcc: required revision is a future revision", Refusal::Future),
    ("etcdserver: duplicate key given in txn request", Refusal::DuplicateKey),
    ("etcdserver: key not found", Refusal::KeyNotFound),
    ("etcdserver: requested lease not found", Refusal::LeaseNotFound),
    ("etcdserver: lease already exists", Refusal::LeaseExists),
    ("etcdserver: request is too large", Refusal::TooLarge),
    ("etcdserver: too many operations in txn request", Refusal::TooManyOps),
];

/// Texts that a member says before it proposes anything.
const BEFORE_PROPOSING: &[&str] = &[
    "etcdserver: no leader",
    "etcdserver: not leader",
    "etcdserver: too many requests",
    "etcdserver: rpc not supported for learner",
];

impl Failure {
    pub(super) fn of(error: CallError) -> Self {
        match error {
            CallError::NotSent { why } => Self::Again { why },
            CallError::Broken { why } => Self::Unknown { why },
            CallError::Status(status) => Self::of_status(status),
        }
    }

    pub(super) fn of_status(status: Status) -> Self {
        let text = status.message.as_str();
        if let Some((_, refusal)) = REFUSALS.iter().find(|(it, _)| *it == text) {
            return Self::Refused(refusal.clone());
        }
        if text == "etcdserver: mvcc: database space exceeded"
            || text == "etcdserver: corrupt cluster"
        {
            return Self::Refused(Refusal::ReadOnly { why: text.to_owned() });
        }
        if BEFORE_PROPOSING.contains(&text) {
            return Self::Again { why: text.to_owned() };
        }
        // A call without a token, after authentication was turned on; or with one from before users
        // changed.
        if text == "etcdserver: user name is empty"
            || text == "etcdserver: revision of auth store is old"
        {
            return Self::Token;
        }
        match status.code {
            Code::Unauthenticated => Self::Token,
            Code::ResourceExhausted => Self::Refused(Refusal::TooLarge),
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented => Self::Refused(Refusal::Other(status)),
            Code::Ok
            | Code::Canceled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => Self::Unknown { why: status.to_string() },
        }
    }
}

/// A refusal that needs no words of the request to be told.
pub(super) fn refused(status: Status) -> Error {
    Error::Io { doing: "asking etcd", source: Arc::new(status) }
}

#[cfg(test)]
mod tests {
    use super::Failure;
    use crate::wire::{Code, Status};

    fn check(code: Code, text: &str, expected: &str) {
        let failure = format!("{:?}", Failure::of_status(Status::new(code, text)));
        assert!(failure.starts_with(expected), "{text}: {failure}");
    }

    #[test]
    fn only_what_surely_did_not_happen_may_be_tried_again() {
        check(Code::Unavailable, "etcdserver: no leader", "Again");
        check(Code::Unavailable, "etcdserver: request timed out", "Unknown");
        check(
            Code::Unavailable,
            "etcdserver: request timed out, possibly due to previous leader failure",
            "Unknown",
        );
        check(Code::Unavailable, "etcdserver: server stopped", "Unknown");
        check(Code::Unavailable, "etcdserver: leader changed", "Unknown");
        check(Code::Unknown, "context canceled", "Unknown");
        check(Code::ResourceExhausted, "etcdserver: too many requests", "Again");
        check(Code::Unauthenticated, "etcdserver: invalid auth token", "Token");
        check(
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
            "Refused(ReadOnly",
        );
        check(
            Code::OutOfRange,
            "etcdserver: mvcc: required revision has been compacted",
            "Refused(Compacted",
        );
        check(Code::PermissionDenied, "etcdserver: permission denied", "Refused(Other");
    }
}
