//! The two admission stages, for an object on its way to the store.

use admission::{Attributes, Mutated, Operation, Valid};
use api::ApiObject;
use apimachinery::ApiError;

use super::core::Core;
use super::{Request, trace};

fn attributes<'a>(
    request: &'a Request,
    operation: Operation,
    object: Option<&'a mut dyn ApiObject>,
    old: Option<&'a dyn ApiObject>,
) -> Attributes<'a> {
    let names = request.working_kind().names();
    Attributes {
        operation,
        kind: names.gvk(),
        resource: names.gvr(),
        subresource: request.subresource().unwrap_or_default(),
        namespace: request.namespace(),
        name: request.name(),
        user: request.user(),
        is_dry_run: request.call.write.dry_run,
        object,
        old,
    }
}

fn operation(old: Option<&dyn ApiObject>) -> Operation {
    if old.is_some() { Operation::Update } else { Operation::Create }
}

pub(super) async fn mutate(
    core: &Core,
    request: &Request,
    object: &mut dyn ApiObject,
    old: Option<&dyn ApiObject>,
) -> Result<Mutated, ApiError> {
    trace::passed("mutate");
    core.admission.mutate(&mut attributes(request, operation(old), Some(object), old)).await
}

pub(super) async fn validate(
    core: &Core,
    request: &Request,
    mutated: Mutated,
    object: &mut dyn ApiObject,
    old: Option<&dyn ApiObject>,
) -> Result<Valid, ApiError> {
    trace::passed("admit");
    let attributes = attributes(request, operation(old), Some(object), old);
    core.admission.validate(mutated, &attributes).await
}

/// Deletions have nothing to mutate.
pub(super) async fn delete(
    core: &Core,
    request: &Request,
    old: &dyn ApiObject,
) -> Result<Valid, ApiError> {
    let name = old.meta().name.as_deref().unwrap_or_default();
    let mut attributes = attributes(request, Operation::Delete, None, Some(old));
    attributes.name = name;
    let mutated = core.admission.mutate(&mut attributes).await?;
    core.admission.validate(mutated, &attributes).await
}

/// A stream has no object, only what it is to.
pub(super) async fn stream(core: &Core, request: &Request) -> Result<Valid, ApiError> {
    let mut attributes = attributes(request, Operation::Connect, None, None);
    let mutated = core.admission.mutate(&mut attributes).await?;
    core.admission.validate(mutated, &attributes).await
}

/// Objects posted to a subresource that has a kind of its own: they are not stored as they are.
pub(crate) async fn connect(
    core: &Core,
    request: &Request,
    object: &mut dyn ApiObject,
) -> Result<Valid, ApiError> {
    let mut attributes = attributes(request, Operation::Create, Some(object), None);
    let mutated = core.admission.mutate(&mut attributes).await?;
    core.admission.validate(mutated, &attributes).await
}
