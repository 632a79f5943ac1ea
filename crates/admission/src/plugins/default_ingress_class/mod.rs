//! An Ingress that names no class gets the default one, if there is one.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::future::ready;

use api::Lookup;
use api::networking::ingress::CLASS_ANNOTATION;
use api::networking::ingress_class::is_default;
use api::networking::{Ingress, IngressClass};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

pub struct DefaultIngressClass;

fn names_class(ingress: &Ingress) -> bool {
    let annotations = ingress.metadata.annotations.as_ref();
    annotations.is_some_and(|it| it.contains_key(CLASS_ANNOTATION))
        || ingress.spec.as_ref().is_some_and(|it| it.ingress_class_name.is_some())
}

/// Of several the newest, then by name.
fn default_class(lookup: &(dyn Lookup + 'static)) -> Option<String> {
    let classes = lookup.all::<IngressClass>(None);
    let defaults = classes.iter().filter(|it| is_default(it));
    let created = |it: &IngressClass| it.metadata.creation_timestamp.as_ref().map(|it| it.0);
    let newest = defaults.min_by_key(|it| (Reverse(created(it)), it.metadata.name.clone()))?;
    newest.metadata.name.clone()
}

fn admit(context: &mut Context<'_>) {
    if context.object_as::<Ingress>().is_none_or(names_class) {
        return;
    }
    let Some(class) = default_class(context.lookup) else { return };
    if let Some(ingress) = context.object_as_mut::<Ingress>() {
        ingress.spec.get_or_insert_default().ingress_class_name = Some(class);
    }
}

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && request.operation == Operation::Create
            && request.is("networking.k8s.io", "ingresses", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        admit(context);
        Box::pin(ready(Ok(())))
    }
}
