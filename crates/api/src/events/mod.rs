//! The group events.k8s.io: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::core;
use crate::kind::{Kind, Typed};

pub mod event;

pub use event::Event;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Typed::<Event>::version_of::<core::Event>(crate::schema))]
}
