//! Calls that the server makes itself: as its own user, through the same stages as everybody's.

use api::Resource;
use apimachinery::{ApiError, GroupVersionResource, User};
use authn::Component;
use client::{DeleteOptions, ListOptions, Preconditions, Verb, WriteOptions};

use crate::pipeline::{self, Body, Call, Core, Unread};

pub(crate) async fn carry_out(core: &Core, call: Call, body: Body) -> Result<(), ApiError> {
    let user = User::new("system:apiserver", &["system:masters"]);
    let request = pipeline::enter_in_process(core, &Component::new(user), call).await?;
    pipeline::call(core, request, Unread::there(body)).await.map(|_| ())
}

/// Of all objects of a resource, until more is said.
pub(crate) fn call(verb: Verb, resource: GroupVersionResource) -> Call {
    Call {
        verb,
        resource,
        namespace: None,
        name: None,
        subresource: None,
        write: WriteOptions::default(),
        list: ListOptions::default(),
        body: Body::Empty,
        user_agent: "kube-apiserver".to_owned(),
    }
}

fn call_for<T: Resource>(core: &Core, verb: Verb) -> Call {
    call(verb, core.kind_of::<T>().names().gvr())
}

pub(crate) async fn create<T: Resource>(core: &Core, object: T) -> Result<(), ApiError> {
    let namespace = object.metadata().namespace.clone();
    let call = Call { namespace, ..call_for::<T>(core, Verb::Create) };
    carry_out(core, call, Body::Object(Box::new(object))).await
}

/// Over the version that the object names.
pub(crate) async fn update<T: Resource>(
    core: &Core,
    object: T,
    subresource: Option<&str>,
) -> Result<(), ApiError> {
    let call = Call {
        namespace: object.metadata().namespace.clone(),
        name: object.metadata().name.clone(),
        subresource: subresource.map(str::to_owned),
        ..call_for::<T>(core, Verb::Update)
    };
    carry_out(core, call, Body::Object(Box::new(object))).await
}

/// This one, and no other of the same name.
pub(crate) async fn delete<T: Resource>(core: &Core, object: &T) -> Result<(), ApiError> {
    let uid = object.metadata().uid.clone();
    delete_if(core, object, Preconditions { uid, ..Preconditions::default() }).await
}

/// And only if nobody wrote to it since.
pub(crate) async fn delete_as_seen<T: Resource>(core: &Core, object: &T) -> Result<(), ApiError> {
    let metadata = object.metadata();
    let resource_version = metadata.resource_version.clone();
    let preconditions = Preconditions { uid: metadata.uid.clone(), resource_version };
    delete_if(core, object, preconditions).await
}

async fn delete_if<T: Resource>(
    core: &Core,
    object: &T,
    preconditions: Preconditions,
) -> Result<(), ApiError> {
    let call = Call {
        namespace: object.metadata().namespace.clone(),
        name: object.metadata().name.clone(),
        ..call_for::<T>(core, Verb::Delete)
    };
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    carry_out(core, call, Body::Delete(options)).await
}
