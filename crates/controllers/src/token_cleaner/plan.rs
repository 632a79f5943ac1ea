//! When a bootstrap token goes. Pure.

use std::time::Duration;

use api::Identified as _;
use api::core::secret::SecretView;
use jiff::Timestamp;

use crate::bootstrap_tokens::{self, Life};

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Keep,
    Wait(Duration),
    Delete,
}

pub(super) fn plan(secret: &SecretView, now: Timestamp) -> Verdict {
    let Some(token) = bootstrap_tokens::of(secret).filter(|_| !secret.is_deleting()) else {
        return Verdict::Keep;
    };
    match bootstrap_tokens::life(token, now) {
        Life::Endless => Verdict::Keep,
        Life::Left(left) => Verdict::Wait(left),
        Life::Over => Verdict::Delete,
    }
}
