//! The typed face: `client.api::<Pod>().get("default", "web")`.

use std::marker::PhantomData;
use std::sync::Arc;

use api::{Dynamic, Meta, Resource, Stored};
use apimachinery::{ApiError, GroupVersionResource};
use bytes::Bytes;

use crate::request::{DeleteOptions, ListOptions, PatchKind, Payload, Request, Verb, WriteOptions};
use crate::transport::{Discovered, List, Reply, Transport, WatchStream};

/// One identity's way to the API. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    /// Sent as `fieldManager` with every write.
    field_manager: Arc<str>,
}

/// Calls on one built-in kind. `namespace` is `""` for cluster-scoped kinds, and for lists and
/// watches of all namespaces.
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

    /// The same client over another transport, made from the one it has: for tests that add faults.
    #[must_use]
    pub fn map_transport(
        &self,
        change: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
    ) -> Self {
        Self {
            transport: change(self.transport.clone()),
            field_manager: self.field_manager.clone(),
        }
    }

    pub fn field_manager(&self) -> &str {
        &self.field_manager
    }
}

impl Client {
    fn request(&self, verb: Verb, resource: GroupVersionResource, namespace: &str) -> Request {
        Request {
            verb,
            resource,
            namespace: non_empty(namespace),
            name: None,
            subresource: None,
            write: WriteOptions::default(),
            list: ListOptions::default(),
            payload: Payload::Empty,
        }
    }

    /// The client's field manager, unless the call names its own.
    fn signed(&self, mut options: WriteOptions) -> WriteOptions {
        options.field_manager.get_or_insert_with(|| self.field_manager.to_string());
        options
    }

    async fn call_object(&self, request: Request) -> Result<Arc<Stored>, ApiError> {
        match self.transport.call(request).await? {
            Reply::Object(object) => Ok(object),
            Reply::List(_) | Reply::Done => {
                Err(ApiError::internal("the server answered without the object"))
            }
        }
    }

    async fn call_list(&self, request: Request) -> Result<List, ApiError> {
        match self.transport.call(request).await? {
            Reply::List(list) => Ok(list),
            Reply::Object(_) | Reply::Done => {
                Err(ApiError::internal("the server answered a list request without a list"))
            }
        }
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether nothing is left of the object, or it is still there until its finalizers are done, is
/// not told: callers look at their cache.
async fn call_done(client: &Client, request: Request) -> Result<(), ApiError> {
    client.transport.call(request).await.map(|_| ())
}

/// What a write made of an object. Most who write need no more than its version, so it is decoded
/// for those who ask.
pub struct Written<T> {
    stored: Arc<Stored>,
    _kind: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stored.fmt(f)
    }
}

impl<T: Resource> Written<T> {
    pub fn meta(&self) -> &Arc<Meta> {
        &self.stored.meta
    }

    pub fn object(&self) -> Result<Arc<T>, ApiError> {
        decoded(&self.stored)
    }
}

fn decoded<T: Resource>(stored: &Stored) -> Result<Arc<T>, ApiError> {
    stored.shared().map_err(|err| {
        let why = format!("{} {}: {err}", T::FACTS.kind, stored.meta.key);
        ApiError::internal("an object cannot be decoded").with_source(why)
    })
}

impl<T: Resource> Api<T> {
    fn request(&self, verb: Verb, namespace: &str) -> Request {
        let facts = T::FACTS;
        let resource = GroupVersionResource::new(facts.group, facts.version, facts.plural);
        self.client.request(verb, resource, namespace)
    }

    pub async fn get(&self, namespace: &str, name: &str) -> Result<Arc<T>, ApiError> {
        let mut request = self.request(Verb::Get, namespace);
        request.name = Some(name.to_owned());
        decoded(&*self.client.call_object(request).await?)
    }

    pub async fn list(&self, namespace: &str, options: ListOptions) -> Result<List, ApiError> {
        let mut request = self.request(Verb::List, namespace);
        request.list = options;
        self.client.call_list(request).await
    }

    pub async fn watch(
        &self,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, ApiError> {
        let mut request = self.request(Verb::Watch, namespace);
        request.list = options;
        self.client.transport.watch(request).await
    }

    /// The namespace is taken from the object.
    pub async fn create(&self, object: T) -> Result<Written<T>, ApiError> {
        let namespace = object.metadata().namespace.clone().unwrap_or_default();
        let mut request = self.request(Verb::Create, &namespace);
        request.write = self.client.signed(WriteOptions::default());
        request.payload = Payload::Object(Box::new(object));
        self.write(request).await
    }

    async fn write(&self, request: Request) -> Result<Written<T>, ApiError> {
        let stored = self.client.call_object(request).await?;
        Ok(Written { stored, _kind: PhantomData })
    }

    pub async fn update(&self, object: T) -> Result<Written<T>, ApiError> {
        self.put(object, None).await
    }

    pub async fn update_status(&self, object: T) -> Result<Written<T>, ApiError> {
        self.put(object, Some("status")).await
    }

    /// PUT to any subresource that has the object's own kind, such as `finalize`.
    pub async fn update_subresource(
        &self,
        object: T,
        subresource: &str,
    ) -> Result<Written<T>, ApiError> {
        self.put(object, Some(subresource)).await
    }

    async fn put(&self, object: T, subresource: Option<&str>) -> Result<Written<T>, ApiError> {
        let namespace = object.metadata().namespace.clone().unwrap_or_default();
        let mut request = self.request(Verb::Update, &namespace);
        request.name = object.metadata().name.clone();
        request.subresource = subresource.map(str::to_owned);
        request.write = self.client.signed(WriteOptions::default());
        request.payload = Payload::Object(Box::new(object));
        self.write(request).await
    }

    pub async fn patch(
        &self,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Bytes,
    ) -> Result<Written<T>, ApiError> {
        let request = self.patch_request(namespace, name, Payload::Patch(kind, body));
        self.write(request).await
    }

    pub async fn patch_status(
        &self,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Bytes,
    ) -> Result<Written<T>, ApiError> {
        self.patch_part(namespace, (name, "status"), kind, body).await
    }

    /// Through the door of a subresource that is a part of the object, such as `resize`.
    pub async fn patch_part(
        &self,
        namespace: &str,
        (name, subresource): (&str, &str),
        kind: PatchKind,
        body: Bytes,
    ) -> Result<Written<T>, ApiError> {
        let mut request = self.patch_request(namespace, name, Payload::Patch(kind, body));
        request.subresource = Some(subresource.to_owned());
        self.write(request).await
    }

    fn patch_request(&self, namespace: &str, name: &str, payload: Payload) -> Request {
        let mut request = self.request(Verb::Patch, namespace);
        request.name = Some(name.to_owned());
        request.write = self.client.signed(WriteOptions::default());
        request.payload = payload;
        request
    }

    pub async fn delete(
        &self,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        let mut request = self.request(Verb::Delete, namespace);
        request.name = Some(name.to_owned());
        request.payload = Payload::Delete(options);
        call_done(&self.client, request).await
    }

    pub async fn delete_collection(
        &self,
        namespace: &str,
        selection: ListOptions,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        let mut request = self.request(Verb::DeleteCollection, namespace);
        request.list = selection;
        request.payload = Payload::Delete(options);
        call_done(&self.client, request).await
    }

    /// POST to a subresource whose body is another kind, such as `binding` or `eviction`.
    pub async fn create_subresource<S: Resource>(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: S,
    ) -> Result<(), ApiError> {
        let mut request = self.request(Verb::Create, namespace);
        request.name = Some(name.to_owned());
        request.subresource = Some(subresource.to_owned());
        request.write = self.client.signed(WriteOptions::default());
        request.payload = Payload::Object(Box::new(body));
        call_done(&self.client, request).await
    }

    /// POST to a subresource that answers with what was asked for, such as `token`.
    pub async fn exchange_subresource<S: Resource>(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: S,
    ) -> Result<Arc<S>, ApiError> {
        let mut request = self.request(Verb::Create, namespace);
        request.name = Some(name.to_owned());
        request.subresource = Some(subresource.to_owned());
        request.write = self.client.signed(WriteOptions::default());
        request.payload = Payload::Object(Box::new(body));
        let reply = self.client.call_object(request).await?;
        decoded(&reply)
    }
}

impl DynamicApi {
    pub fn resource(&self) -> &GroupVersionResource {
        &self.resource
    }

    fn request(&self, verb: Verb, namespace: &str) -> Request {
        self.client.request(verb, self.resource.clone(), namespace)
    }

    pub async fn get(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, ApiError> {
        let mut request = self.request(Verb::Get, namespace);
        request.name = Some(name.to_owned());
        self.client.call_object(request).await
    }

    /// GET of what is below an object, such as `scale`.
    pub async fn get_subresource(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Result<Arc<Stored>, ApiError> {
        let mut request = self.request(Verb::Get, namespace);
        request.name = Some(name.to_owned());
        request.subresource = Some(subresource.to_owned());
        self.client.call_object(request).await
    }

    /// PUT to what is below an object and has a kind of its own, such as `scale`.
    pub async fn update_subresource<S: Resource>(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: S,
    ) -> Result<Arc<Stored>, ApiError> {
        let mut request = self.request(Verb::Update, namespace);
        request.name = Some(name.to_owned());
        request.subresource = Some(subresource.to_owned());
        request.write = self.client.signed(WriteOptions::default());
        request.payload = Payload::Object(Box::new(body));
        self.client.call_object(request).await
    }

    pub async fn list(&self, namespace: &str, options: ListOptions) -> Result<List, ApiError> {
        let mut request = self.request(Verb::List, namespace);
        request.list = options;
        self.client.call_list(request).await
    }

    pub async fn watch(
        &self,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, ApiError> {
        let mut request = self.request(Verb::Watch, namespace);
        request.list = options;
        self.client.transport.watch(request).await
    }

    /// The namespace is taken from the object.
    pub async fn create(&self, object: Dynamic) -> Result<Arc<Stored>, ApiError> {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let mut request = self.request(Verb::Create, &namespace);
        request.write = self.client.signed(WriteOptions::default());
        request.payload = Payload::Object(Box::new(object));
        self.client.call_object(request).await
    }

    pub async fn patch(
        &self,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Bytes,
        options: WriteOptions,
    ) -> Result<Arc<Stored>, ApiError> {
        let mut request = self.request(Verb::Patch, namespace);
        request.name = Some(name.to_owned());
        request.write = self.client.signed(options);
        request.payload = Payload::Patch(kind, body);
        self.client.call_object(request).await
    }

    pub async fn patch_status(
        &self,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Bytes,
    ) -> Result<Arc<Stored>, ApiError> {
        let options = WriteOptions::default();
        self.patch_part(namespace, (name, "status"), kind, body, options).await
    }

    /// Through the door of a subresource that is a part of the object, such as `status`.
    pub async fn patch_part(
        &self,
        namespace: &str,
        (name, subresource): (&str, &str),
        kind: PatchKind,
        body: Bytes,
        options: WriteOptions,
    ) -> Result<Arc<Stored>, ApiError> {
        let mut request = self.request(Verb::Patch, namespace);
        request.name = Some(name.to_owned());
        request.subresource = Some(subresource.to_owned());
        request.write = self.client.signed(options);
        request.payload = Payload::Patch(kind, body);
        self.client.call_object(request).await
    }

    pub async fn delete(
        &self,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        let mut request = self.request(Verb::Delete, namespace);
        request.name = Some(name.to_owned());
        request.payload = Payload::Delete(options);
        call_done(&self.client, request).await
    }

    pub async fn delete_collection(
        &self,
        namespace: &str,
        selection: ListOptions,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        let mut request = self.request(Verb::DeleteCollection, namespace);
        request.list = selection;
        request.payload = Payload::Delete(options);
        call_done(&self.client, request).await
    }
}
