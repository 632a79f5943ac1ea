//! Services and what belongs to them.

pub(super) mod addresses;
pub(super) mod api_server;
pub(super) mod endpoints;
pub(super) mod ingresses;
pub(super) mod matching_pods;
pub(super) mod proxied;
pub(super) mod services;
pub(super) mod traffic;
