//! What pods may ask for.

pub(super) mod limit_ranges;
