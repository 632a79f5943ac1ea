//! An object on its way through a write, in the forms that stages need: typed, and as bytes. The bytes are made at most once
//! between two changes, and dropped when they are stale.

use std::sync::OnceLock;

use admission::Valid;
use api::ApiObject;
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use crate::stored_bytes::with_managed_fields;

pub(crate) struct Draft {
    object: Box<dyn ApiObject>,
    bytes: OnceLock<Bytes>,
}

impl Draft {
    pub(super) fn new(object: Box<dyn ApiObject>) -> Self {
        Self { object, bytes: OnceLock::new() }
    }

    pub(crate) fn object(&self) -> &dyn ApiObject {
        self.object.as_ref()
    }

    /// What was made of it is stale from here on.
    pub(crate) fn change(&mut self) -> &mut dyn ApiObject {
        self.bytes.take();
        self.object.as_mut()
    }

    /// For plugins that only look: they are handed what they could change, and must not.
    pub(super) fn show(&mut self) -> &mut dyn ApiObject {
        self.object.as_mut()
    }

    /// The JSON form.
    pub(super) fn bytes(&self) -> &Bytes {
        self.bytes.get_or_init(|| self.object.encode().into())
    }

    pub(super) fn take_managed_fields(&mut self) -> Option<Vec<ManagedFieldsEntry>> {
        self.object.meta().managed_fields.as_ref()?;
        self.change().meta_mut().managed_fields.take()
    }

    /// Of an object that has none: its bytes, where there are some, need not be made anew for it.
    pub(super) fn set_managed_fields(&mut self, entries: Vec<ManagedFieldsEntry>) {
        let bytes = self.bytes.take();
        self.object.meta_mut().managed_fields = Some(entries);
        let entries = self.object.meta().managed_fields.as_deref().unwrap_or_default();
        if let Some(bytes) = bytes.and_then(|it| with_managed_fields(&it, entries)) {
            let _ = self.bytes.set(bytes);
        }
    }

    /// Nothing changes it any more. Takes the proof that it, or the action that made it, was admitted.
    pub(super) fn seal(self, _valid: &Valid) -> Sealed {
        Sealed(self)
    }
}

/// An object that every plugin has agreed to, as it is. Nothing else is stored.
pub(super) struct Sealed(Draft);

impl Sealed {
    pub(super) fn object(&self) -> &dyn ApiObject {
        self.0.object()
    }

    pub(super) fn bytes(&self) -> &Bytes {
        self.0.bytes()
    }

    /// Without the records of who wrote what, which are not part of what was agreed to.
    pub(super) fn without_managed_fields(&self) -> Self {
        let mut object = self.object().clone_box();
        object.meta_mut().managed_fields = None;
        Self(Draft::new(object))
    }
}
