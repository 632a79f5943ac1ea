//! A namespace that is deleted stays until its content is gone: whoever removes that removes
//! `spec.finalizers`.

use api::ApiObject;
use api::core::Namespace;
use jiff::Timestamp;

use crate::pipeline::hooks::{Hooks, Of};

pub(crate) struct Namespaces;

impl Hooks for Namespaces {
    fn of(&self) -> &'static [Of] {
        &[("", "namespaces")]
    }

    fn begin_deletion(
        &self,
        object: &mut dyn ApiObject,
        _finalizers: &mut Vec<String>,
        _now: Timestamp,
    ) {
        let namespace = object.downcast_mut::<Namespace>().expect("the kind is Namespace");
        namespace.status.get_or_insert_default().phase = Some("Terminating".to_owned());
    }

    fn is_kept(&self, object: &dyn ApiObject) -> bool {
        let namespace = object.downcast_ref::<Namespace>().and_then(|it| it.spec.as_ref());
        let finalizers = namespace.and_then(|it| it.finalizers.as_ref());
        finalizers.is_some_and(|it| !it.is_empty())
    }
}
