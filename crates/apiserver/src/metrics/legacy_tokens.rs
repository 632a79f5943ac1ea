//! Uses of tokens that are kept in Secrets.

use std::sync::Arc;

use telemetry::{Counter, Description, Registry, Stability};

const fn uses(name: &'static str, help: &'static str) -> Description<0> {
    Description { name, stability: Stability::Alpha, help, labels: [] }
}

const ALL: Description<0> =
    uses("serviceaccount_legacy_tokens_total", "Cumulative legacy service account tokens used");
const AUTOMATIC: Description<0> = uses(
    "serviceaccount_legacy_auto_token_uses_total",
    "Cumulative auto-generated legacy tokens used",
);
const MANUAL: Description<0> = uses(
    "serviceaccount_legacy_manual_token_uses_total",
    "Cumulative manually created legacy tokens used",
);
const INVALID: Description<0> = uses(
    "serviceaccount_invalid_legacy_auto_token_uses_total",
    "Cumulative invalid auto-generated legacy tokens used",
);

pub(crate) struct LegacyTokens {
    pub(crate) all: Arc<Counter>,
    pub(crate) automatic: Arc<Counter>,
    pub(crate) manual: Arc<Counter>,
    pub(crate) invalid: Arc<Counter>,
}

impl LegacyTokens {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            all: registry.counter(&ALL),
            automatic: registry.counter(&AUTOMATIC),
            manual: registry.counter(&MANUAL),
            invalid: registry.counter(&INVALID),
        }
    }
}
