//! The contracts of the Kubernetes API, without any one kind: names, metadata, field errors,
//! selectors, quantities, schedules, schemas, patches, server-side apply, and table cells. Pure: no
//! I/O, no clock.

pub mod apply;
pub mod bounds;
pub mod cel;
pub mod cron;
pub mod error;
pub mod field;
pub mod garbage;
pub mod go;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod table;
pub mod user;
pub mod validation;

pub use error::{ApiError, Reason};
pub use field::{FieldErrors, Path};
pub use names::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, NameRule,
    Names, ObjectKey, Scope,
};
pub use user::User;
