//! `cargo xtask torture`: the long runs that try to break what must not break, one file or folder
//! for each thing.

pub(crate) mod cel;
pub(crate) mod controllers;
pub(crate) mod node;
pub(crate) mod store;
