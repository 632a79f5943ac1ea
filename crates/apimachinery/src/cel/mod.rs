//! Expressions over Kubernetes objects: what they may call, how schemas become types, and the
//! validation rules of custom resources.

pub mod rules;
pub mod schema;

use std::sync::OnceLock;

/// What expressions of any use may call.
pub fn environment() -> &'static ::cel::Env {
    static ENVIRONMENT: OnceLock<::cel::Env> = OnceLock::new();
    ENVIRONMENT.get_or_init(::cel::Env::extended)
}
