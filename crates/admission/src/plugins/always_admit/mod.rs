//! Agrees to everything, which is what happens without it. Kept because upstream has it.

#[cfg(test)]
mod tests;

use crate::attributes::Attributes;
use crate::chain::{Phase, Plugin};

pub struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }

    fn handles(&self, _phase: Phase, _request: &Attributes<'_>) -> bool {
        false
    }
}
