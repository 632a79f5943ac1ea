//! Volumes, as objects.

pub(super) mod attachments;
pub(super) mod claims;
pub(super) mod classes;
pub(super) mod csi;
pub(super) mod immutable;
pub(super) mod many_volumes;
