//! What kubectl does.

pub(super) mod commands;
pub(super) mod controllers;
pub(super) mod proxy;
