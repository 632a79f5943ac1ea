//! What plugins ask of authorization.

use apimachinery::{GroupResource, ObjectKey, User};

/// Whether somebody was given a verb of its own for what a plugin would otherwise refuse.
pub trait Rights: Send + Sync {
    fn may(&self, user: &User, verb: &str, resource: &GroupResource, object: &ObjectKey) -> bool;
}
