//! Kubernetes' function libraries, one file each, with what calls cost (upstream,
//! `apiserver/pkg/cel/library`).

pub mod authz;
mod cidr;
mod equality;
mod format;
mod ip;
mod json_patch;
mod lists;
mod quantity;
mod reading;
mod regex;
mod semver;
mod url;

pub use self::quantity::{Quantity, quantity_type};
pub use self::semver::{Version, semver_type};

/// Those that every expression has.
pub(super) fn all() -> Vec<cel::Library> {
    vec![
        equality::library(),
        lists::library(),
        regex::library(),
        url::library(),
        ip::library(),
        cidr::library(),
        quantity::library(),
        semver::library(),
        format::library(),
        authz::library(),
        json_patch::library(),
    ]
}
