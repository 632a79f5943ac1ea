//! The store's errors as etcd says them. Clients compare code and text, so both are exactly etcd's
//! where etcd has one.

use kvstore::{Error, TXN_OPS_MAX};

use crate::wire::{Code, Status};

macro_rules! statuses {
    ($($name:ident = $code:ident, $text:literal;)*) => {
        $(pub(super) fn $name() -> Status {
            Status::new(Code::$code, $text)
        })*
    };
}

statuses! {
    empty_key = InvalidArgument, "etcdserver: key is not provided";
    key_not_found = InvalidArgument, "etcdserver: key not found";
    value_provided = InvalidArgument, "etcdserver: value is provided";
    lease_provided = InvalidArgument, "etcdserver: lease is provided";
    too_many_ops = InvalidArgument, "etcdserver: too many operations in txn request";
    duplicate_key = InvalidArgument, "etcdserver: duplicate key given in txn request";
    invalid_sort = InvalidArgument, "etcdserver: invalid sort option";
    request_too_large = InvalidArgument, "etcdserver: request is too large";
    too_many_requests = ResourceExhausted, "etcdserver: too many requests";
    compacted = OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    future_revision = OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    no_space = ResourceExhausted, "etcdserver: mvcc: database space exceeded";
    lease_not_found = NotFound, "etcdserver: requested lease not found";
    lease_exists = FailedPrecondition, "etcdserver: lease already exists";
    lease_ttl_too_large = OutOfRange, "etcdserver: too large lease TTL";
    auth_not_enabled = FailedPrecondition, "etcdserver: authentication is not enabled";
    bad_leader_transferee = FailedPrecondition, "etcdserver: bad leader transferee";
    stopped = Unavailable, "etcdserver: server stopped";
    timed_out = Unavailable, "etcdserver: request timed out";
}

pub(super) fn status(err: &Error) -> Status {
    match err {
        Error::Compacted { .. } => compacted(),
        Error::Future { .. } => future_revision(),
        Error::DuplicateKey { .. } => duplicate_key(),
        Error::KeyNotFound { .. } => key_not_found(),
        Error::LeaseNotFound { .. } => lease_not_found(),
        Error::LeaseExists { .. } => lease_exists(),
        Error::TooLarge { max, .. } if *max > TXN_OPS_MAX => request_too_large(),
        Error::TooLarge { .. } => too_many_ops(),
        Error::ReadOnly { why } if is_full(why) => no_space(),
        // Clients know what to do when a member is not available: try again, or elsewhere.
        Error::ReadOnly { .. } | Error::Unavailable { .. } => {
            Status::new(Code::Unavailable, format!("etcdserver: {err}"))
        }
        Error::Uncertain { .. } => timed_out(),
        Error::Closed => stopped(),
        Error::Io { .. } => {
            tracing::error!(error = stdx::error_chain(err), "the store failed");
            Status::new(Code::Internal, format!("etcdserver: {err}"))
        }
    }
}

/// Whether the reason for being read-only is that there is no room, which has an alarm and an error
/// of its own.
pub(super) fn is_full(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    why.contains("no space") || why.contains("quota") || why.contains("storagefull")
}
