//! One folder per kind: defaults, validation, columns, conversions. Pure: no I/O, no clock.
//!
//! `Resource` describes a built-in kind on its typed struct; `Kind` is the same with the type
//! erased, and what the server works with.

/// What the one list of kinds is here: the kinds.
macro_rules! served {
    (
        kinds { $($kind:path,)* }
        versions { $($version:path as $hub:path,)* }
        bodies { $($body:path,)* }
    ) => {
        /// Every built-in kind, group by group, then those that are served in another version too.
        pub fn kinds() -> Vec<std::sync::Arc<dyn crate::Kind>> {
            vec![
                $(std::sync::Arc::new(crate::Typed::<$kind>::new(crate::schema)),)*
                $(std::sync::Arc::new(
                    crate::Typed::<$version>::version_of::<$hub>(crate::schema),
                ),)*
            ]
        }

        #[cfg(test)]
        pub(crate) fn bodies() -> Vec<std::sync::Arc<dyn crate::Kind>> {
            vec![$(std::sync::Arc::new(crate::Typed::<$body>::new(crate::schema)),)*]
        }

        const _: () = {
            $(assert!(!<$kind as crate::Resource>::FACTS.verbs.is_empty(), "it is a body");)*
            $(assert!(!<$version as crate::Resource>::FACTS.verbs.is_empty(), "it is a body");)*
            $(assert!(<$body as crate::Resource>::FACTS.verbs.is_empty(), "it is a resource");)*
        };
    };
}

#[macro_use]
mod codec;
#[macro_use]
mod halves;
#[macro_use]
mod version;
#[macro_use]
mod view;
mod addresses;
pub mod amounts;
mod cell;
mod check;
mod conditions;
mod facts;
mod interned;
pub mod kind;
pub mod lookup;
pub mod object;
mod quantities;
mod semantic;
#[cfg(test)]
mod testing;
mod webhook_client;

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apiserverinternal;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod discovery_documents;
pub mod events;
pub mod flowcontrol;
pub mod metrics;
pub mod networking;
pub mod node;
pub mod openapi;
pub mod policy;
pub mod protobuf;
pub mod rbac;
pub mod resource;
pub mod scheduling;
mod schemas;
mod served;
pub mod storage;
pub mod storagemigration;

pub use codec::{Counts, encode_raw, take_counts};
pub use interned::{Interned, Pairs};
pub use kind::{Kind, Part, Resource, Scale, Subresource, Typed};
pub use lookup::Lookup;
pub use object::{ApiObject, Dynamic, Meta, Stored};
pub use schemas::{object_meta_description, schema};
pub use served::kinds;
pub use version::Version;
pub use view::{Identified, View};
