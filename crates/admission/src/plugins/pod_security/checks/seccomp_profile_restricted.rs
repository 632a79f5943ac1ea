//! There is a seccomp profile, and it filters something.

use super::Subject;
use super::seccomp_profile_baseline::Filters;
use super::text::{Violation, containers};

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let filters = Filters::of(pod);
    filters.violation().or_else(|| {
        (!filters.silent.is_empty()).then(|| Violation {
            reason: "seccompProfile",
            detail: format!(
                "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
                containers(&filters.silent)
            ),
        })
    })
}
