//! One request on its way through the chain: what is asked for, the object as it is by now, and
//! what plugins may use.

use std::any::{Any, TypeId};

use api::{ApiObject, Lookup};
use apimachinery::ApiError;
use serde_json::Value;

use crate::attributes::Attributes;
use crate::authorizer::Authorizer;
use crate::draft::{Codec, Draft, Forms};
use crate::notes::Notes;
use crate::observer::Observer;

/// What plugins may use of the server.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// What this server knows of all objects. In memory.
    pub lookup: &'a (dyn Lookup + 'static),
    pub authorizer: &'a dyn Authorizer,
}

pub struct Context<'a> {
    pub request: Attributes<'a>,
    pub lookup: &'a (dyn Lookup + 'static),
    pub authorizer: &'a dyn Authorizer,
    notes: &'a Notes,
    draft: Option<(Draft, Codec<'a>)>,
    old: Option<&'a dyn Forms>,
    is_reinvocation: bool,
    memory: Vec<(TypeId, Box<dyn Any + Send + Sync>)>,
}

impl<'a> Context<'a> {
    /// With neither a new nor an old object.
    pub fn new(
        request: Attributes<'a>,
        Surroundings { lookup, authorizer }: Surroundings<'a>,
        notes: &'a Notes,
    ) -> Self {
        Self {
            request,
            lookup,
            authorizer,
            notes,
            draft: None,
            old: None,
            is_reinvocation: false,
            memory: Vec::new(),
        }
    }

    /// What is created or changed, posted to a subresource, or the options of a stream.
    #[must_use]
    pub fn with_object(self, draft: Draft, codec: Codec<'a>) -> Self {
        Self { draft: Some((draft, codec)), ..self }
    }

    /// What is changed or deleted.
    #[must_use]
    pub fn with_old(self, old: &'a dyn Forms) -> Self {
        Self { old: Some(old), ..self }
    }

    /// Absent on delete. For subresources with a kind of their own (binding, eviction, token) it is
    /// of that kind.
    pub fn draft(&self) -> Option<&Draft> {
        self.draft.as_ref().map(|it| &it.0)
    }

    pub fn draft_mut(&mut self) -> Option<&mut Draft> {
        self.draft.as_mut().map(|it| &mut it.0)
    }

    pub fn into_draft(self) -> Option<Draft> {
        self.draft.map(|it| it.0)
    }

    /// Absent on create and connect.
    pub fn old(&self) -> Option<&'a dyn Forms> {
        self.old
    }

    pub fn object(&self) -> Option<&dyn ApiObject> {
        self.draft().map(Draft::object)
    }

    pub fn object_as<T: 'static>(&self) -> Option<&T> {
        self.object().and_then(|it| it.downcast_ref())
    }

    /// Counts as a change.
    pub fn object_as_mut<T: 'static>(&mut self) -> Option<&mut T> {
        // Of another type, it stays as it is.
        self.object_as::<T>()?;
        self.draft_mut().and_then(|it| it.change().downcast_mut())
    }

    pub fn old_as<T: 'static>(&self) -> Option<&'a T> {
        self.old.and_then(|it| it.object().downcast_ref())
    }

    /// Takes what somebody else has made of the object, and fills in its defaults. Whether it is
    /// another object now.
    pub fn replace(&mut self, tree: &Value) -> Result<bool, serde_json::Error> {
        let Some((draft, codec)) = &mut self.draft else { return Ok(false) };
        if draft.tree() == tree {
            return Ok(false);
        }
        let object = codec.decode(&serde_json::to_vec(tree)?)?;
        draft.replace(object);
        Ok(true)
    }

    /// In the path, or on creation in the object; empty where one will be drawn.
    pub fn name(&self) -> &str {
        if !self.request.name.is_empty() {
            return self.request.name;
        }
        self.object().and_then(|it| it.meta().name.as_deref()).unwrap_or_default()
    }

    /// For whoever made the request.
    pub fn warn(&self, text: &str) {
        self.notes.warn(text);
    }

    /// For the audit log: see `Notes::annotate`.
    pub fn annotate(&self, key: &str, value: &str) {
        self.notes.annotate(key, value);
    }

    /// What was said so far.
    pub(crate) fn notes(&self) -> &Notes {
        self.notes
    }

    /// See `Notes::annotate_with_content`.
    pub fn annotate_with_content(&self, key: &str, value: &str) {
        self.notes.annotate_with_content(key, value);
    }

    /// Calls from within the process have none.
    pub fn audit_id(&self) -> Option<String> {
        self.notes.audit_id().map(ToString::to_string)
    }

    /// Who is to be told of each step, if anybody is.
    pub(crate) fn observer(&self) -> Option<&'a Observer> {
        self.notes.observer()
    }

    /// `pods "web" is forbidden: <why>`. An object that has no name yet is called by the prefix
    /// that its name will have.
    pub fn forbidden(&self, why: &str) -> ApiError {
        let prefix = self.object().and_then(|it| it.meta().generate_name.as_deref());
        let name = match self.name() {
            "" => prefix.unwrap_or_default(),
            name => name,
        };
        ApiError::forbidden(&self.request.kind.names().group_resource(), name, why)
    }

    /// Whether the plugins run for the second time, because somebody outside has changed the
    /// object.
    pub fn is_reinvocation(&self) -> bool {
        self.is_reinvocation
    }

    pub(crate) fn reinvoke(&mut self) {
        self.is_reinvocation = true;
    }

    /// Equal while nobody has changed the object.
    pub fn generation(&self) -> u64 {
        self.draft().map_or(0, Draft::generation)
    }

    /// What a plugin wants to know again when it runs for the second time. There is one of each
    /// type.
    pub fn memory<T: Any + Default + Send + Sync>(&mut self) -> &mut T {
        let id = TypeId::of::<T>();
        let known = self.memory.iter().position(|it| it.0 == id);
        let index = known.unwrap_or_else(|| {
            self.memory.push((id, Box::<T>::default()));
            self.memory.len() - 1
        });
        self.memory[index].1.downcast_mut().expect("it was found by its type")
    }
}
