//! PUT, and the common end of everything that changes an existing object.

use std::sync::{Arc, OnceLock};

use admission::{Draft, Forms, Json, Valid};
use api::{ApiObject, Kind, Part, Stored};
use apimachinery::validation::{
    validate_metadata, validate_metadata_again, validate_metadata_update,
};
use apimachinery::{ApiError, FieldErrors, GroupKind, GroupResource, Path};
use client::Preconditions;
use serde_json::Value;

use super::core::Core;
use super::create::{create_object, invalid_if_any};
use super::draft::{Sealed, without_empties};
use super::hooks::{Reserved, Write};
use super::store::{Expect, Place, Written};
use super::{Outcome, Request, admit, decode, fields, loose, metadata, preconditions, store};
use crate::stored_bytes::with_version;

/// How often a write without a resourceVersion starts over when somebody else was faster.
pub(crate) const TRIES_MAX: usize = 5;

/// The stored object that a write starts from.
pub(crate) struct Current {
    pub(crate) stored: Arc<Stored>,
    /// In the form that the rules take.
    pub(crate) object: Arc<dyn ApiObject>,
    kind: Arc<dyn Kind>,
    /// The JSON of the object: of a custom resource in the version of the request, of all others as
    /// it is stored.
    json: Arc<Json>,
    /// In the version of the request, if that is another.
    served_tree: OnceLock<Option<Value>>,
}

impl Current {
    pub(super) async fn new(
        core: &Core,
        request: &Request,
        stored: Arc<Stored>,
    ) -> Result<Self, ApiError> {
        let kind = &request.kind;
        let json = match kind.is_custom() {
            true => {
                let served = request.family.serve(kind.as_ref(), vec![stored.clone()]).await?;
                served.first().unwrap_or(&stored).bytes.clone()
            }
            false => stored.bytes.clone(),
        };
        let object = match core.recent.find(stored.meta.resource_version, &stored.meta.uid) {
            Some(object) => object,
            None => request.working_kind().decode(&json).map(Arc::from).map_err(|err| {
                ApiError::internal("the stored object cannot be read").with_source(err)
            })?,
        };
        let (kind, json) = (kind.clone(), Arc::new(Json::new(json)));
        Ok(Self { stored, object, kind, json, served_tree: OnceLock::new() })
    }

    /// In the version of the request.
    pub(super) fn tree(&self) -> &Value {
        let served = || self.kind.served_from(self.object.as_ref());
        let served = self.served_tree.get_or_init(|| served().map(|it| it.to_value()));
        served.as_ref().unwrap_or_else(|| Forms::tree(self))
    }
}

impl Forms for Current {
    fn object(&self) -> &dyn ApiObject {
        self.object.as_ref()
    }

    fn json(&self) -> &Arc<Json> {
        &self.json
    }
}

pub(super) async fn current(core: &Core, request: &Request) -> Result<Option<Current>, ApiError> {
    core.cache.wait_current().await?;
    let Some(stored) = core.cache.get(request.kind.as_ref(), &request.path()?) else {
        return Ok(None);
    };
    Current::new(core, request, stored).await.map(Some)
}

/// The object that a subresource is of.
pub(crate) async fn existing(core: &Core, request: &Request) -> Result<Current, ApiError> {
    current(core, request).await?.ok_or_else(|| request.not_found())
}

pub(super) async fn update(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let mut incoming = decode::decode(request)?;
    validate_place(request, incoming.as_mut())?;
    let uid = incoming.meta().uid.clone().filter(|it| !it.is_empty());
    let wanted = Preconditions { uid, resource_version: None };
    for _ in 0..TRIES_MAX {
        let Some(current) = current(core, request).await? else {
            if request.kind.creates_on_update() && request.subresource().is_none() {
                preconditions::validate(request, &wanted, None)?;
                metadata::place_new(request, incoming.meta_mut())?;
                return create_object(core, request, incoming).await;
            }
            return Err(request.not_found());
        };
        // Asked anew if somebody was faster: that may have been with what goes beside the object.
        preconditions::validate(request, &wanted, Some(&current))?;
        validate_version(request, incoming.as_ref(), &current)?;
        if let Some(outcome) = replace(core, request, &current, incoming.clone_box()).await? {
            return Ok((outcome, 200));
        }
    }
    Err(request.modified())
}

/// Name and namespace are those of the path.
fn validate_place(request: &Request, object: &mut dyn ApiObject) -> Result<(), ApiError> {
    let meta = object.meta_mut();
    let name = meta.name.get_or_insert_default();
    if name.is_empty() {
        request.name().clone_into(name);
    } else if name != request.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name()
        )));
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    if !namespace.is_empty() && namespace != request.namespace() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The optimistic lock, if the client holds one.
pub(super) fn validate_version(
    request: &Request,
    incoming: &dyn ApiObject,
    current: &Current,
) -> Result<(), ApiError> {
    let meta = incoming.meta();
    match meta.resource_version.as_deref().unwrap_or_default() {
        "" | "0" if request.kind.updates_unconditionally() => Ok(()),
        "" | "0" => {
            let mut errors = FieldErrors::new();
            let path = Path::new("metadata").child("resourceVersion");
            errors.invalid(&path, 0, "must be specified for an update");
            // Upstream names the resource where others name the kind.
            let GroupResource { group, resource } = request.kind.names().group_resource();
            let kind = GroupKind { group, kind: resource };
            Err(ApiError::invalid(&kind, request.name(), &errors))
        }
        version if version == current.stored.meta.resource_version.to_string() => Ok(()),
        _ => Err(request.modified()),
    }
}

/// Mutates, validates, admits and stores `object` in place of `current`; `None` if somebody else
/// was faster.
pub(super) async fn replace(
    core: &Core,
    request: &Request,
    current: &Current,
    mut object: Box<dyn ApiObject>,
) -> Result<Option<Outcome>, ApiError> {
    let old = current.object.as_ref();
    // Before admission: an update that leaves out what only the server sets is none of that.
    metadata::carry_over(object.as_mut(), old);
    let mut draft = Draft::new(object);
    record(core, request, current, &mut draft).await?;
    let mut context = admit::writing(core, request, draft, Some(current));
    let mutated = admit::mutate(core, &mut context).await?;
    let draft = context.draft_mut().expect("a write has an object");
    let reserved = prepare(core, request, current, draft).await?;
    let valid = admit::validate(core, mutated, &context).await?;
    let draft = context.into_draft().expect("a write has an object");
    let draft = without_empties(request, draft);
    commit(core, request, current, Sealed::new(draft, &valid, reserved)).await
}

/// Who writes what, before plugins and the kind add theirs. Apply has recorded its own already.
pub(super) async fn record(
    core: &Core,
    request: &Request,
    current: &Current,
    draft: &mut Draft,
) -> Result<(), ApiError> {
    // Before it is compared with what was stored: a zero that is not stored is no change.
    if let Some(settled) = core.cache.settle(request.working_kind(), draft.object()) {
        draft.replace(settled);
    }
    match is_applying(request) {
        true => Ok(()),
        false => fields::record(core, request, Some(current.tree()), draft).await,
    }
}

/// From what the chain left to what it agrees to: as the kind wants it, with all that it needs, and
/// valid.
pub(super) async fn prepare(
    core: &Core,
    request: &Request,
    current: &Current,
    draft: &mut Draft,
) -> Result<Reserved, ApiError> {
    let (kind, old) = (request.kind.as_ref(), current.object.as_ref());
    // Before it is compared with what was stored: a zero that is not stored is no change.
    if let Some(settled) = core.cache.settle(request.working_kind(), draft.object()) {
        draft.replace(settled);
    }
    let is_counted = kind.has_generation() && request.part() != Part::Status;
    let is_new = kind.generation_counts_lost() && kind.is_new_generation(draft.object(), old);
    kind.prepare_update(draft.change(), old, request.part());
    // What the cluster gives, or takes because a feature is off, is compared, validated and admitted
    // like all else.
    request.hooks.complete(core, request, draft, Some(old));
    if is_counted && (is_new || kind.is_new_generation(draft.object(), old)) {
        let generation = old.meta().generation.unwrap_or(0) + 1;
        draft.change().meta_mut().generation = Some(generation);
    }
    let reserved = request.hooks.reserve(core, draft, Some(old))?;
    validate(request, draft.object(), old)?;
    request.warn_of(draft.object(), Some(old));
    Ok(reserved)
}

/// Stores what the server itself has made of an object, past the rules for clients and without a
/// record of who wrote it. At which revision it is stored then; `None` if somebody else was faster.
pub(crate) async fn write_directly(
    core: &Core,
    request: &Request,
    current: &Current,
    (mut object, valid): (Box<dyn ApiObject>, &Valid),
) -> Result<Option<u64>, ApiError> {
    object.meta_mut().resource_version = None;
    let draft = Draft::new(object);
    let expect = Expect::At(current.stored.meta.resource_version);
    let path = request.path()?;
    let place = Place { path: &path, expect };
    let sealed = Sealed::new(draft, valid, Reserved::default());
    Ok(match store::put(core, request, place, sealed).await? {
        Written::Stored(stored) => Some(stored.meta.resource_version),
        Written::Refused => None,
    })
}

pub(super) fn is_applying(request: &Request) -> bool {
    matches!(request.call.body, super::Body::Patch(client::PatchKind::Apply, _))
}

fn validate(
    request: &Request,
    object: &dyn ApiObject,
    old: &dyn ApiObject,
) -> Result<(), ApiError> {
    let kind = request.kind.as_ref();
    let mut errors = FieldErrors::new();
    validate_metadata(object.meta(), kind.scope(), kind.name_rule(), &mut errors);
    validate_metadata_update(object.meta(), old.meta(), &mut errors);
    (1..kind.metadata_checks(request.part()))
        .for_each(|_| validate_metadata_again(object.meta(), &mut errors));
    kind.judge_update(object, old, request.part(), &mut errors);
    if kind.validates_twice() && request.part() == Part::Main && !errors.is_empty() {
        kind.validate(object, &mut errors);
        kind.validate_create(object, &mut errors);
    }
    errors.warnings().iter().for_each(|it| request.notes.warn(it));
    invalid_if_any(request.working_kind(), object, &errors)
}

/// Stores, or removes what was only waiting for its last finalizer, or does nothing if nothing
/// changed.
pub(super) async fn commit(
    core: &Core,
    request: &Request,
    current: &Current,
    sealed: Sealed<'_>,
) -> Result<Option<Outcome>, ApiError> {
    let kind = request.stored_kind();
    let (object, old) = (sealed.object(), Some(current.object.as_ref()));
    request.hooks.validate_write(core, &Write { request, object, old })?;
    let version = current.stored.meta.resource_version;
    if store::is_same(request, &sealed, &current.stored).await? {
        return Ok(Some(Outcome::Object(current.stored.clone())));
    }
    let answer = |sealed: &Sealed<'_>, at| Outcome::Object(loose(with_version(sealed.bytes(), at)));
    if request.call.write.dry_run {
        return Ok(Some(answer(&sealed, version)));
    }
    let path = request.path()?;
    if super::delete::is_finished(request, sealed.object()) {
        // What was reserved for it is given back: it is gone.
        let removed = store::remove(core, kind, (&path, version), sealed.valid()).await?;
        return Ok(removed.map(|revision| answer(&sealed, revision)));
    }
    let place = Place { path: &path, expect: Expect::At(version) };
    Ok(match store::put(core, request, place, sealed).await? {
        Written::Stored(stored) => Some(Outcome::Object(stored)),
        Written::Refused => None,
    })
}
