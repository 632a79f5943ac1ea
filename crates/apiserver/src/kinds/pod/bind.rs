//! A pod gets its node, once.

use api::core::{Binding, Pod};
use apimachinery::ApiError;

use crate::pipeline::hooks::{Acting, Hooks, Of};
use crate::pipeline::{self, Core, Outcome, Request, TRIES_MAX};

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
    let binding: Binding = pipeline::body_as(request)?;
    if request.call.name.is_none() {
        request.call.name.clone_from(&binding.metadata.name);
    }
    let (binding, valid) = pipeline::admit_action(core, request, binding).await?;
    if binding.target.name.as_deref().unwrap_or_default().is_empty() {
        return Err(ApiError::bad_request("the binding names no node"));
    }
    request.turn_to(core, core.kind_of::<Pod>());
    request.call.subresource = Some("binding".to_owned());
    let resource = request.kind.names().group_resource();
    for _ in 0..TRIES_MAX {
        let current = pipeline::existing(core, request).await?;
        let mut object = current.object.clone_box();
        let pod = object.downcast_mut::<Pod>().expect("the kind is Pod");
        if let Some(uid) = binding.metadata.uid.as_ref().filter(|it| !it.is_empty())
            && Some(uid) != pod.metadata.uid.as_ref()
        {
            let why = format!("Precondition failed: UID in precondition: {uid}");
            return Err(ApiError::conflict(&resource, request.name(), &why));
        }
        api::core::pod::bind(pod, &binding, pipeline::now(core).0)
            .map_err(|why| ApiError::conflict(&resource, request.name(), &why))?;
        // The assignment is the server's own change: the pod's update rules, which forbid it to
        // clients, do not apply.
        if pipeline::write_directly(core, request, &current, (object, &valid)).await? {
            return Ok((Outcome::Done(Box::default()), 201));
        }
    }
    Err(request.modified())
}
