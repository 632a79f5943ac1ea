//! What the pipeline does with a draft beyond admission: records of who wrote which field, and the
//! seal before the store.

use admission::{Draft, Valid};
use api::ApiObject;
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kvstore::Compare;

use super::Request;
use super::hooks::Reserved;
use crate::stored_bytes::with_managed_fields;

/// The records of who wrote which field, in a draft.
pub(super) trait ManagedFields {
    fn take_managed_fields(&mut self) -> Option<Vec<ManagedFieldsEntry>>;

    /// Of an object that has none: its bytes, where there are some, need not be made anew for it.
    fn set_managed_fields(&mut self, entries: Vec<ManagedFieldsEntry>);
}

impl ManagedFields for Draft {
    fn take_managed_fields(&mut self) -> Option<Vec<ManagedFieldsEntry>> {
        self.object().meta().managed_fields.as_ref()?;
        self.change().meta_mut().managed_fields.take()
    }

    fn set_managed_fields(&mut self, entries: Vec<ManagedFieldsEntry>) {
        let bytes = |bytes: &Bytes, object: &dyn ApiObject| {
            let entries = object.meta().managed_fields.as_deref().unwrap_or_default();
            with_managed_fields(bytes, entries)
        };
        self.amend(|it| it.meta_mut().managed_fields = Some(entries), bytes);
    }
}

/// The draft without lists and maps that have nothing in them, once it is judged: what upstream
/// stores and reads again has none. Custom resources are kept as they are.
pub(super) fn without_empties(request: &Request, draft: Draft) -> Draft {
    let kind = request.working_kind();
    if !request.has_empties || kind.is_custom() {
        return draft;
    }
    let mut tree = draft.tree().clone();
    kind.schema().drop_empties(&mut tree);
    kind.decode(tree.to_string().as_bytes()).map_or(draft, Draft::new)
}

/// An object that every plugin has agreed to, as it is, with what was reserved for it. Nothing else
/// is stored; and what is not stored gives back what was reserved.
pub(super) struct Sealed<'a> {
    draft: Draft,
    valid: &'a Valid,
    reserved: Reserved,
}

impl<'a> Sealed<'a> {
    /// Takes the proof that the object, or the action that made it, was admitted.
    pub(super) fn new(draft: Draft, valid: &'a Valid, reserved: Reserved) -> Self {
        Self { draft, valid, reserved }
    }

    pub(super) fn draft(&self) -> &Draft {
        &self.draft
    }

    pub(super) fn object(&self) -> &dyn ApiObject {
        self.draft.object()
    }

    pub(super) fn bytes(&self) -> &Bytes {
        self.draft.bytes()
    }

    /// What else must hold where other servers write to the same store.
    pub(super) fn guard(&self) -> Option<Compare> {
        self.reserved.guard()
    }

    /// Whether other objects change with it.
    pub(super) fn is_charged(&self) -> bool {
        !self.valid.beside().is_empty()
    }

    pub(super) fn valid(&self) -> &Valid {
        self.valid
    }

    /// It was stored. Gives the object back.
    pub(super) fn keep(self) -> Draft {
        self.valid.keep();
        self.reserved.keep();
        self.draft
    }

    /// Without the records of who wrote what, which are not part of what was agreed to.
    pub(super) fn without_managed_fields(&self) -> Draft {
        let mut object = self.object().clone_box();
        object.meta_mut().managed_fields = None;
        Draft::new(object)
    }
}
