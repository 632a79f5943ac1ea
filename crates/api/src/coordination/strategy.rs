//! How one of several candidates for a Lease is picked.

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use crate::check;

/// The one whose emulated version is the oldest, then whose own is.
pub(super) const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

/// Names without a domain are ours. The error is at a field below the strategy's own, as upstream
/// has it.
pub(super) fn validate(strategy: &str, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("strategy");
    if strategy.contains('/') {
        check::format(strategy, &is_qualified_name(strategy), &path, errors);
    } else if strategy != OLDEST_EMULATION_VERSION {
        errors.not_supported(&path, strategy, &[OLDEST_EMULATION_VERSION]);
    }
}
