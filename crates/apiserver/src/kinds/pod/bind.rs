//! A pod gets its node, once.

use api::core::{Binding, Pod};
use apimachinery::{ApiError, FieldErrors, GroupResource, Path, Reason};
use client::Preconditions;

use crate::pipeline::hooks::{Acting, Hooks, Of};
use crate::pipeline::{self, Core, Outcome, Request, TRIES_MAX, preconditions};

/// The kind `Binding`, which is the older way to the same.
pub(crate) struct Bindings;

impl Hooks for Bindings {
    fn of(&self) -> &'static [Of] {
        &[("", "bindings")]
    }

    fn act<'a>(&'a self, core: &'a Core, request: &'a mut Request) -> Acting<'a> {
        Box::pin(bind(core, request))
    }
}

pub(super) async fn bind(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let mut binding: Binding = pipeline::body_as(request)?;
    let is_older = request.call.name.is_none();
    if is_older {
        request.call.name.clone_from(&binding.metadata.name);
        // Taken away from what comes without a subresource, as from any new object.
        binding.metadata.uid = None;
    }
    validate_place(request, &binding)?;
    let (binding, valid) = pipeline::admit_action(core, request, binding).await?;
    validate(&binding)?;
    request.turn_to(core, core.kind_of::<Pod>());
    request.call.subresource = Some("binding".to_owned());
    let wanted = wanted(&binding);
    for _ in 0..TRIES_MAX {
        let current = pipeline::existing(core, request).await?;
        preconditions::validate(request, &wanted, Some(&current))?;
        let mut object = current.object.clone_box();
        let pod = object.downcast_mut::<Pod>().expect("the kind is Pod");
        api::core::pod::bind(pod, &binding, pipeline::now(core).0)
            .map_err(|why| ApiError::conflict(&binding_of_pods(), request.name(), &why))?;
        // The assignment is the server's own change: the pod's update rules, which forbid it to
        // clients, do not apply.
        let written = match request.call.write.dry_run {
            true => Some(0),
            false => pipeline::write_directly(core, request, &current, (object, &valid)).await?,
        };
        if written.is_some() {
            return Ok((Outcome::Done(Box::default()), 201));
        }
    }
    Err(request.modified())
}

fn validate_place(request: &Request, binding: &Binding) -> Result<(), ApiError> {
    let meta = &binding.metadata;
    if meta.namespace.as_deref().is_some_and(|it| !it.is_empty() && it != request.namespace()) {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if meta.name.as_deref().unwrap_or_default() != request.name() {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    Ok(())
}

/// What is wrong is told without a reason, as upstream tells it: of bindings, problems are no
/// `Invalid`.
fn validate(binding: &Binding) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let path = Path::new("target");
    let kind = binding.target.kind.as_deref().unwrap_or_default();
    if !["", "Node"].contains(&kind) {
        errors.not_supported_as_listed(&path.child("kind"), kind, &["Node", "<empty>"]);
    }
    if binding.target.name.as_deref().unwrap_or_default().is_empty() {
        errors.required(&path.child("name"), "");
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ApiError::new(Reason::Unknown, errors.to_string())),
    }
}

fn wanted(binding: &Binding) -> Preconditions {
    let said = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
    let meta = &binding.metadata;
    Preconditions { uid: said(&meta.uid), resource_version: said(&meta.resource_version) }
}

/// What a pod that cannot be bound is said to be.
fn binding_of_pods() -> GroupResource {
    GroupResource { group: String::new(), resource: "pods/binding".to_owned() }
}
