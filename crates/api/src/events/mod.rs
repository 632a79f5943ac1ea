//! The group events.k8s.io: one folder per kind.

pub mod event;

pub use event::Event;
