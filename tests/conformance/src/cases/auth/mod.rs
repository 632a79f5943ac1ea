//! Who asks, and what they may.

pub(super) mod certificates;
pub(super) mod service_accounts;
pub(super) mod subject_reviews;
