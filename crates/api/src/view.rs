//! What somebody who follows a kind keeps of each object.
//!
//! A decoded pod takes about thirteen kilobytes, and most who follow pods read a few of its fields.
//! A view is a struct of these fields: it is read out of the stored JSON by itself, and nothing
//! else is kept. Every kind is a view of itself: all of it, but for managedFields.

use std::sync::Arc;

use apimachinery::{GroupVersionResource, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::kind::{Facts, Resource};
use crate::object::{Stored, key_of};

/// What an informer keeps of each object of a resource.
///
/// A type that is made by `Deserialize` reads only the fields that it has, at a fraction of the
/// cost of the whole:
///
/// ```
/// use api::{Meta, Stored, View};
/// use apimachinery::GroupVersionResource;
/// use serde::Deserialize;
///
/// /// How much a claim asks for: a custom resource, which has no other type here.
/// #[derive(Deserialize)]
/// struct Quota {
///     spec: Spec,
/// }
///
/// #[derive(Deserialize)]
/// struct Spec {
///     gigabytes: u32,
/// }
///
/// impl View for Quota {
///     fn resource() -> GroupVersionResource {
///         GroupVersionResource::new("example.com", "v1", "quotas")
///     }
///
///     fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
///         serde_json::from_slice(&stored.bytes)
///     }
/// }
///
/// let json = r#"{"kind":"Quota","metadata":{"name":"a"},"spec":{"gigabytes":7,"more":["not","kept"]}}"#;
/// let stored = Stored::new(Meta::default(), json.into());
/// assert_eq!(stored.view::<Quota>()?.spec.gigabytes, 7);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub trait View: Send + Sync + Sized + 'static {
    /// What is listed and watched.
    fn resource() -> GroupVersionResource;

    fn read(stored: &Stored) -> Result<Self, serde_json::Error>;
}

/// Without managedFields, which nobody but the server reads and which can be half of an object. An
/// update sent without them keeps those that are stored.
impl<T: Resource> View for T {
    fn resource() -> GroupVersionResource {
        let facts = T::FACTS;
        GroupVersionResource::new(facts.group, facts.version, facts.plural)
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let mut object = T::decode(&stored.bytes)?;
        object.metadata_mut().managed_fields = None;
        // Decoding leaves spare capacity in every list, and holes where managedFields were: a pod
        // of 5 KB takes 35 KB while it is decoded, 15 KB after, and its copy 13 KB in one piece.
        Ok(object.clone())
    }
}

/// A view that says which object it is of, and whose that is: what can be owned, waited for and
/// spoken of in events.
pub trait Identified: View {
    const FACTS: Facts;

    fn key(&self) -> ObjectKey;
    fn namespace(&self) -> &str;
    fn uid(&self) -> &str;
    /// The resourceVersion.
    fn version(&self) -> u64;
    fn is_deleting(&self) -> bool;
    fn label(&self, name: &str) -> Option<&str>;
    fn owners(&self) -> &[OwnerReference];

    /// The one owner that manages the object.
    fn controller(&self) -> Option<&OwnerReference> {
        self.owners().iter().find(|it| it.controller == Some(true))
    }
}

/// For views that keep the `Meta` of their object, as `meta`.
macro_rules! identified_by_meta {
    ($view:ty, $kind:ty) => {
        impl $crate::Identified for $view {
            const FACTS: $crate::kind::Facts = <$kind as $crate::Resource>::FACTS;

            fn key(&self) -> apimachinery::ObjectKey {
                self.meta.key.clone()
            }

            fn namespace(&self) -> &str {
                &self.meta.key.namespace
            }

            fn uid(&self) -> &str {
                &self.meta.uid
            }

            fn version(&self) -> u64 {
                self.meta.resource_version
            }

            fn is_deleting(&self) -> bool {
                self.meta.is_deleting
            }

            fn label(&self, name: &str) -> Option<&str> {
                self.meta.labels.get(name)
            }

            fn owners(&self) -> &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference] {
                &self.meta.owner_references
            }
        }

        /// Of an object that is at hand whole and not stored.
        impl From<&$kind> for $view {
            fn from(object: &$kind) -> Self {
                let meta = $crate::object::meta_of($crate::Resource::metadata(object), Vec::new());
                let bytes = $crate::Resource::encode(object).into();
                let read = <Self as $crate::View>::read(&$crate::Stored::new(meta, bytes));
                read.expect("what was encoded can be read")
            }
        }
    };
}

impl<T: Resource> Identified for T {
    const FACTS: Facts = <T as Resource>::FACTS;

    fn key(&self) -> ObjectKey {
        key_of(self.metadata())
    }

    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    fn version(&self) -> u64 {
        let version = self.metadata().resource_version.as_deref();
        version.and_then(|it| it.parse().ok()).unwrap_or(0)
    }

    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.metadata().labels.as_ref()?.get(name).map(String::as_str)
    }

    fn owners(&self) -> &[OwnerReference] {
        self.metadata().owner_references.as_deref().unwrap_or_default()
    }
}

impl Stored {
    /// Read by whoever asks first, and shared while anybody keeps it.
    pub fn view<V: View>(&self) -> Result<Arc<V>, serde_json::Error> {
        self.typed(|_| V::read(self))
    }
}
