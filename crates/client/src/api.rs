//! The typed face: `client.api::<Pod>().get("default", "web")`.

use std::marker::PhantomData;
use std::sync::Arc;

use api::{Dynamic, Resource, Stored};
use apimachinery::{ApiError, GroupVersionResource};
use bytes::Bytes;

use crate::request::{DeleteOptions, ListOptions, PatchKind, WriteOptions};
use crate::transport::{Discovered, List, Transport, WatchStream};

/// One identity's way to the API. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    /// Sent as `fieldManager` with every write.
    field_manager: Arc<str>,
}

/// Calls on one built-in kind. `namespace` is `""` for cluster-scoped kinds, and for lists and watches of
/// all namespaces.
pub struct Api<T> {
    client: Client,
    _kind: PhantomData<fn() -> T>,
}

/// Calls on any resource, without a Rust type.
pub struct DynamicApi {
    client: Client,
    resource: GroupVersionResource,
}

impl Client {
    pub fn new(transport: Arc<dyn Transport>, field_manager: &str) -> Self {
        Self { transport, field_manager: field_manager.into() }
    }

    pub fn api<T: Resource>(&self) -> Api<T> {
        Api { client: self.clone(), _kind: PhantomData }
    }

    pub fn dynamic(&self, resource: GroupVersionResource) -> DynamicApi {
        DynamicApi { client: self.clone(), resource }
    }

    pub async fn discover(&self) -> Result<Vec<Discovered>, ApiError> {
        self.transport.discover().await
    }

    pub async fn get_path(&self, path: &str) -> Result<Bytes, ApiError> {
        self.transport.get_path(path.to_owned()).await
    }

    pub fn field_manager(&self) -> &str {
        &self.field_manager
    }
}

#[expect(unused_variables, reason = "contract only")]
impl<T: Resource> Api<T> {
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Arc<T>, ApiError> {
        todo!()
    }
    pub async fn list(&self, namespace: &str, options: ListOptions) -> Result<List, ApiError> {
        todo!()
    }
    pub async fn watch(
        &self,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, ApiError> {
        todo!()
    }
    /// The namespace is taken from the object.
    pub async fn create(&self, object: T) -> Result<Arc<T>, ApiError> {
        todo!()
    }
    pub async fn update(&self, object: T) -> Result<Arc<T>, ApiError> {
        todo!()
    }
    pub async fn update_status(&self, object: T) -> Result<Arc<T>, ApiError> {
        todo!()
    }
    pub async fn patch(
        &self,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Bytes,
    ) -> Result<Arc<T>, ApiError> {
        todo!()
    }
    pub async fn patch_status(
        &self,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Bytes,
    ) -> Result<Arc<T>, ApiError> {
        todo!()
    }
    pub async fn delete(
        &self,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        todo!()
    }
    pub async fn delete_collection(
        &self,
        namespace: &str,
        selection: ListOptions,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        todo!()
    }
    /// POST to a subresource whose body is another kind, such as `binding` or `eviction` (JSON bytes given).
    pub async fn create_subresource<S: Resource>(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: S,
    ) -> Result<(), ApiError> {
        todo!()
    }
}

#[expect(unused_variables, reason = "contract only")]
impl DynamicApi {
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, ApiError> {
        todo!()
    }
    pub async fn list(&self, namespace: &str, options: ListOptions) -> Result<List, ApiError> {
        todo!()
    }
    pub async fn watch(
        &self,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, ApiError> {
        todo!()
    }
    pub async fn create(&self, object: Dynamic) -> Result<Arc<Stored>, ApiError> {
        todo!()
    }
    pub async fn patch(
        &self,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Bytes,
        options: WriteOptions,
    ) -> Result<Arc<Stored>, ApiError> {
        todo!()
    }
    pub async fn delete(
        &self,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        todo!()
    }
    pub async fn delete_collection(
        &self,
        namespace: &str,
        selection: ListOptions,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        todo!()
    }
}
