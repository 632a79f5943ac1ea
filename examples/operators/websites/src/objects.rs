//! What the operator keeps of the objects that it follows: see `api::View`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::config_map::ConfigMap;
use api::{Meta, Stored, View};
use apimachinery::{GroupVersionResource, ObjectKey};
use serde::Deserialize;

pub(crate) const KIND: &str = "Website";

/// A custom resource: this is all that its type is.
#[derive(Clone, Debug, Default)]
pub struct Website {
    pub meta: Arc<Meta>,
    pub pages: BTreeMap<String, String>,
    /// How many pages its status speaks of.
    pub n_reported: Option<usize>,
}

#[derive(Deserialize)]
struct WebsiteParts {
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Spec {
    pages: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Status {
    pages: Option<usize>,
}

impl View for Website {
    fn resource() -> GroupVersionResource {
        GroupVersionResource::new("example.com", "v1", "websites")
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let parts: WebsiteParts = serde_json::from_slice(&stored.bytes)?;
        Ok(Self {
            meta: stored.meta.clone(),
            pages: parts.spec.and_then(|it| it.pages).unwrap_or_default(),
            n_reported: parts.status.and_then(|it| it.pages),
        })
    }
}

/// A ConfigMap, with nothing of those that belong to no website.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    pub meta: Arc<Meta>,
    pub data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct PagesParts {
    data: Option<BTreeMap<String, String>>,
}

impl View for Pages {
    fn resource() -> GroupVersionResource {
        ConfigMap::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let mut pages = Self { meta: stored.meta.clone(), data: BTreeMap::new() };
        if pages.site().is_some() {
            pages.data =
                serde_json::from_slice::<PagesParts>(&stored.bytes)?.data.unwrap_or_default();
        }
        Ok(pages)
    }
}

impl Pages {
    /// The website that it belongs to.
    pub fn site(&self) -> Option<ObjectKey> {
        let mut owners = self.meta.owner_references.iter();
        let owner = owners.find(|it| it.kind == KIND && it.controller == Some(true))?;
        Some(ObjectKey::new(self.meta.key.namespace.as_str(), owner.name.as_str()))
    }
}
