//! The admission stages: what is asked for becomes a context, and passes the chain.

use admission::{
    Attributes, Codec, Context, Deletion, Draft, Mutated, Operation, Options, Surroundings, Valid,
};
use api::autoscaling::Scale;
use api::{Dynamic, Resource};
use apimachinery::ApiError;
use client::DeleteOptions;

use super::core::Core;
use super::update::Current;
use super::{Request, trace};

fn context<'a>(core: &'a Core, request: &'a Request, operation: Operation) -> Context<'a> {
    let write = &request.call.write;
    let attributes = Attributes {
        operation,
        kind: request.working_kind(),
        requested: request.kind.names(),
        versions: request.family.as_ref(),
        subresource: request.subresource().unwrap_or_default(),
        namespace: request.namespace(),
        name: request.name(),
        user: request.user(),
        options: Options {
            is_dry_run: write.dry_run,
            field_manager: write.field_manager.as_deref(),
            field_validation: write.field_validation.as_deref(),
            deletion: None,
        },
    };
    let surroundings =
        Surroundings { lookup: core.cache.as_ref(), authorizer: core.authorizer.as_ref() };
    Context::new(attributes, surroundings, &request.notes)
}

/// For an object on its way to the store, in place of `old` if that is there.
pub(super) fn writing<'a>(
    core: &'a Core,
    request: &'a Request,
    draft: Draft,
    old: Option<&'a Current>,
) -> Context<'a> {
    let codec = Codec::Kind(request.working_kind());
    match old {
        None => context(core, request, Operation::Create).with_object(draft, codec),
        Some(old) => {
            context(core, request, Operation::Update).with_object(draft, codec).with_old(old)
        }
    }
}

/// For a number that is changed: plugins see the Scale of the object, and the Scale that it had.
pub(super) fn scaling<'a>(
    core: &'a Core,
    request: &'a Request,
    scale: Draft,
    old: &'a Draft,
) -> Context<'a> {
    let context = context(core, request, Operation::Update);
    context.with_object(scale, Codec::of::<Scale>()).with_old(old)
}

pub(super) async fn mutate(core: &Core, context: &mut Context<'_>) -> Result<Mutated, ApiError> {
    trace::passed("mutate");
    core.admission.mutate(context).await
}

pub(super) async fn validate(
    core: &Core,
    mutated: Mutated,
    context: &Context<'_>,
) -> Result<Valid, ApiError> {
    trace::passed("admit");
    core.admission.validate(mutated, context).await
}

async fn pass(core: &Core, context: &mut Context<'_>) -> Result<Valid, ApiError> {
    let mutated = core.admission.mutate(context).await?;
    core.admission.validate(mutated, context).await
}

/// Deletions have nothing to mutate.
pub(super) async fn delete(
    core: &Core,
    request: &Request,
    options: &DeleteOptions,
    old: &Current,
) -> Result<Valid, ApiError> {
    let mut context = context(core, request, Operation::Delete).with_old(old);
    let preconditions = &options.preconditions;
    context.request.options = Options {
        is_dry_run: options.dry_run || request.call.write.dry_run,
        deletion: Some(Deletion {
            grace_period_seconds: options.grace_period_seconds,
            propagation_policy: options.propagation.map(client::Propagation::name),
            uid: preconditions.uid.as_deref(),
            resource_version: preconditions.resource_version.as_deref(),
        }),
        ..Options::default()
    };
    pass(core, &mut context).await
}

/// A stream is decided about by its options, which may come out changed.
pub(super) async fn stream(
    core: &Core,
    request: &Request,
    options: Dynamic,
) -> Result<(Dynamic, Valid), ApiError> {
    let draft = Draft::new(Box::new(options));
    let context = context(core, request, Operation::Connect);
    let mut context = context.with_object(draft, Codec::dynamic());
    let valid = pass(core, &mut context).await?;
    let options = context.object_as::<Dynamic>().cloned().unwrap_or_default();
    Ok((options, valid))
}

/// Objects posted to a subresource that has a kind of its own, and reviews: they are not stored as
/// they are. Whoever acts on one keeps what was reserved when it has.
pub(crate) async fn act<T: Resource>(
    core: &Core,
    request: &Request,
    object: T,
) -> Result<(T, Valid), ApiError> {
    let context = context(core, request, Operation::Create);
    let mut context = context.with_object(Draft::new(Box::new(object)), Codec::of::<T>());
    let valid = pass(core, &mut context).await?;
    let object = context.object_as::<T>().cloned().expect("a draft keeps its type");
    Ok((object, valid))
}
