//! One file per command: its flags and what it does.

pub(crate) mod apiserver;
pub(crate) mod controller_manager;
pub(crate) mod down;
pub(crate) mod image;
pub(crate) mod network;
pub(crate) mod remote;
pub(crate) mod scheduler;
pub(crate) mod service_accounts;
pub(crate) mod store;
pub(crate) mod up;
