//! Where an object is among those of its kind, and so its key in the store: the only way to make
//! one.
//!
//! A path has exactly the segments that the scope of its kind wants, and no segment can be taken
//! for two or for another: what a client calls a name never reaches into another namespace,
//! resource or group.

use api::Kind;
use apimachinery::validation::is_path_segment;
use apimachinery::{ApiError, Scope};
use bytes::Bytes;

use super::ROOT;

/// `namespace/name`, or `name` alone for kinds that have no namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectPath(String);

impl ObjectPath {
    pub(crate) fn of(kind: &dyn Kind, namespace: &str, name: &str) -> Result<Self, ApiError> {
        validate_segment("Name", name)?;
        match kind.scope() {
            Scope::Namespaced => {
                validate_segment("Namespace", namespace)?;
                Ok(Self(format!("{namespace}/{name}")))
            }
            Scope::Cluster if namespace.is_empty() => Ok(Self(name.to_owned())),
            Scope::Cluster => Err(ApiError::no_such_resource()),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Refuses what is not one segment of a path. `what` is `Name` or `Namespace`.
pub(crate) fn validate_segment(what: &str, text: &str) -> Result<(), ApiError> {
    if text.is_empty() {
        return Err(ApiError::bad_request(format!("{what} parameter required.")));
    }
    match is_path_segment(text).as_slice() {
        [] => Ok(()),
        problems => Err(ApiError::bad_request(format!(
            "{what} parameter invalid: {text:?}: {}",
            problems.join(";")
        ))),
    }
}

pub(crate) fn store_key(kind: &dyn Kind, path: &ObjectPath) -> Bytes {
    Bytes::from(format!("{ROOT}{}/{}", kind.registry_prefix(), path.as_str()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::Kind;
    use apimachinery::Scope;
    use proptest::prelude::*;

    use super::{ObjectPath, store_key};
    use crate::registry::Registry;

    fn key(kind: &Arc<dyn Kind>, namespace: &str, name: &str) -> Option<String> {
        let path = ObjectPath::of(kind.as_ref(), namespace, name).ok()?;
        Some(String::from_utf8(store_key(kind.as_ref(), &path).to_vec()).unwrap())
    }

    /// Texts that have been used to get out of a path, and others.
    fn segment() -> impl Strategy<Value = String> {
        let parts = prop::sample::select(vec![
            "",
            ".",
            "..",
            "/",
            "%",
            "%2F",
            "%2e",
            "a",
            "b",
            "kube-system",
            "\\",
            "\0",
            " ",
            "pods",
        ]);
        prop::collection::vec(parts, 0..5).prop_map(|it| it.concat())
    }

    proptest! {
        /// The key of every kind is read back as that kind, that namespace and that name, or there
        /// is none.
        #[test]
        fn a_key_is_of_its_kind_its_namespace_and_its_name(namespace in segment(), name in segment()) {
            let registry = Registry::new(api::kinds());
            let kinds = registry.kinds();
            for kind in kinds.iter().filter(|it| !it.registry_prefix().is_empty() && it.hub().is_none()) {
                let Some(key) = key(kind, &namespace, &name) else { continue };
                let (prefix, found, path) = kinds.locate(key.strip_prefix("/registry/").unwrap()).unwrap();
                prop_assert_eq!(prefix, kind.registry_prefix());
                prop_assert_eq!(found.names(), kind.names());
                let expected = match kind.scope() {
                    Scope::Namespaced => format!("{namespace}/{name}"),
                    Scope::Cluster => name.clone(),
                };
                prop_assert_eq!(path, expected);
                let n_segments = if kind.scope() == Scope::Namespaced { 2 } else { 1 };
                prop_assert_eq!(path.split('/').count(), n_segments);
                prop_assert!(path.split('/').all(|it| !matches!(it, "" | "." | "..") && !it.contains('%')));
            }
        }
    }

    #[test]
    fn names_and_scopes_that_do_not_fit_have_no_key() {
        let registry = Registry::new(api::kinds());
        let kinds = registry.kinds();
        let check = |plural: &str, namespace: &str, name: &str, expected: &str| {
            let kind = kinds.iter().find(|it| it.names().plural == plural).unwrap();
            let path = ObjectPath::of(kind.as_ref(), namespace, name);
            let said =
                path.map_or_else(|err| err.message().to_owned(), |it| it.as_str().to_owned());
            assert_eq!(said, expected);
        };
        check("secrets", "ns", "a", "ns/a");
        check("secrets", "", "ns/a", "Name parameter invalid: \"ns/a\": may not contain '/'");
        check("secrets", "", "a", "Namespace parameter required.");
        check("secrets", "..", "a", "Namespace parameter invalid: \"..\": may not be '..'");
        check("secrets", "ns", "", "Name parameter required.");
        check("secrets", "ns", "a%2fb", "Name parameter invalid: \"a%2fb\": may not contain '%'");
        check("nodes", "", "a", "a");
        check("nodes", "ns", "a", "the server could not find the requested resource");
        check("clusterroles", "", "system:node", "system:node");
    }
}
