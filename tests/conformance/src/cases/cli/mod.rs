//! What kubectl does.

pub(super) mod commands;
pub(super) mod proxy;
