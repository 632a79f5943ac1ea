//! The facts of every kind of Kubernetes, served or not, as `build.rs` reads them in `facts/`.

use crate::kind::Facts;

#[cfg(test)]
mod tests;

/// Made by the build.
mod table {
    use apimachinery::{NameRule, Scope};

    use crate::kind::{DeletePolicy, Door, Facts, Part, Subresource};

    include!(concat!(env!("OUT_DIR"), "/facts.rs"));
}

impl Facts {
    /// What `facts/` says of a kind. One that it does not have is an error of the build.
    pub const fn of<T: k8s_openapi::Resource>() -> Self {
        let mut rest = table::ALL;
        while let [facts, after @ ..] = rest {
            if is_same(facts.kind, T::KIND)
                && is_same(facts.version, T::VERSION)
                && is_same(facts.group, T::GROUP)
            {
                return *facts;
            }
            rest = after;
        }
        panic!("no file in crates/api/facts has this kind in this version")
    }
}

const fn is_same(left: &str, right: &str) -> bool {
    let (mut left, mut right) = (left.as_bytes(), right.as_bytes());
    while let ([one, left_rest @ ..], [other, right_rest @ ..]) = (left, right) {
        if *one != *other {
            return false;
        }
        (left, right) = (left_rest, right_rest);
    }
    left.is_empty() && right.is_empty()
}
