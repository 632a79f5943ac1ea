//! `matchConditions`: expressions that say whether a webhook is asked. The one place where what
//! evaluates them is plugged in.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;

use super::review::Shown;
use crate::context::Context;

pub(super) enum Verdict {
    /// All hold.
    Match,
    /// One does not, whatever the others come to.
    #[expect(dead_code, reason = "nothing evaluates expressions yet")]
    No,
    /// One could not be evaluated, and of the others none says no.
    Error(String),
}

pub(super) struct MatchConditions {
    names: Vec<String>,
}

impl MatchConditions {
    pub(super) fn new(conditions: &[MatchCondition]) -> Self {
        Self { names: conditions.iter().map(|it| it.name.clone()).collect() }
    }

    /// On the object as the webhook would see it.
    pub(super) fn evaluate(&self, _context: &Context<'_>, _shown: &Shown) -> Verdict {
        match self.names.first() {
            None => Verdict::Match,
            Some(name) => Verdict::Error(format!(
                "matchCondition {name:?} cannot be evaluated: this server has no CEL"
            )),
        }
    }
}
