//! One folder per kind: defaults, validation, columns, conversions. Pure: no I/O, no clock.
//!
//! `Resource` describes a built-in kind on its typed struct; `Kind` is the same with the type erased, and what the
//! server works with.

#[macro_use]
mod codec;
#[macro_use]
mod view;
mod cell;
mod check;
mod interned;
pub mod kind;
pub mod lookup;
pub mod object;
mod semantic;
#[cfg(test)]
mod testing;

pub mod apiextensions;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod discovery_documents;
pub mod openapi;
pub mod policy;
pub mod protobuf;
pub mod rbac;
mod schemas;

use std::sync::Arc;

pub use codec::{Counts, take_counts};
pub use interned::{Interned, Pairs};
pub use kind::{Kind, Part, Resource, Scale, Subresource, Typed};
pub use lookup::Lookup;
pub use object::{ApiObject, Dynamic, Meta, Stored};
pub use schemas::schema;
pub use view::{Identified, View};

/// Every built-in kind, group by group.
pub fn kinds() -> Vec<Arc<dyn Kind>> {
    [
        apiextensions::kinds(),
        apps::kinds(),
        authentication::kinds(),
        authorization::kinds(),
        autoscaling::kinds(),
        coordination::kinds(),
        core::kinds(),
        discovery::kinds(),
        policy::kinds(),
        rbac::kinds(),
    ]
    .concat()
}
