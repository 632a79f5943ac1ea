//! Where pods come from: the API, and files in a folder.

pub(crate) mod inbox;
pub(crate) mod mirror;
pub(crate) mod static_pods;
