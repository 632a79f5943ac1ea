//! `cargo xtask diff api|controllers`: ours beside upstream's, by what clients can see of them.

mod api;
mod controllers;
mod server;

pub(crate) use api::api;
pub(crate) use controllers::controllers;
