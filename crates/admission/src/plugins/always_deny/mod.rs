//! Refuses everything that is not a read.

#[cfg(test)]
mod tests;

use std::future::ready;

use crate::attributes::Attributes;
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

pub struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn handles(&self, phase: Phase, _request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(Err(context.forbidden("admission control is denying all modifications"))))
    }
}
