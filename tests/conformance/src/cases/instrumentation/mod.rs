//! Events, in both of their groups.

pub(super) mod events;
