//! POST: decode, mutate, validate, admit, store.

use admission::Draft;
use api::{ApiObject, Kind};
use apimachinery::validation::validate_metadata;
use apimachinery::{ApiError, FieldErrors};

use super::core::Core;
use super::draft::{Sealed, without_empties};
use super::hooks::Write;
use super::stages::MayCreate;
use super::store::{Expect, Written};
use super::{Outcome, Request, admit, decode, fields, loose, metadata, stages, store, trace};
use crate::cache::ObjectPath;

/// How often another name is drawn when a generated one is taken.
const NAMES_MAX: usize = 8;
/// How often it is tried again when another server was faster to take what there is only once.
const RACES_MAX: usize = 64;

pub(super) async fn create(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let mut object = decode::decode(request)?;
    metadata::place_new(request, object.meta_mut())?;
    create_object(core, request, object).await
}

/// The stages after decoding; also for what PUT and apply create.
pub(super) async fn create_object(
    core: &Core,
    request: &mut Request,
    object: Box<dyn ApiObject>,
) -> Result<(Outcome, u16), ApiError> {
    // What apply and PUT create passes here without the verb having been asked for.
    if !request.kind.verbs().contains(&"create") {
        return Err(super::method_not_allowed());
    }
    let may_create = stages::authorize_creation(core, request)?;
    let is_generated = metadata::needs_name(object.meta());
    let (mut tries, mut races) = (1, 1);
    loop {
        match create_once(core, request, object.clone_box(), may_create).await {
            Err(err) if err.is_already_exists() && is_generated && tries < NAMES_MAX => tries += 1,
            // Somebody has given out an address or a port meanwhile, or charged the same quota.
            Err(err) if err.is_conflict() && races < RACES_MAX => races += 1,
            outcome => return outcome,
        }
    }
}

async fn create_once(
    core: &Core,
    request: &Request,
    object: Box<dyn ApiObject>,
    may_create: MayCreate,
) -> Result<(Outcome, u16), ApiError> {
    let (kind, hooks) = (request.kind.as_ref(), request.hooks.as_ref());
    let mut draft = Draft::new(object);
    // What plugins and the kind add is no field of whoever writes. Apply has recorded its own
    // ownership already.
    if !super::update::is_applying(request) {
        fields::record(core, request, None, &mut draft).await?;
    }
    let mut context = admit::writing(core, request, draft, None);
    let mutated = admit::mutate(core, &mut context).await?;
    let draft = context.draft_mut().expect("a write has an object");
    // Whoever was asked outside may have moved it.
    metadata::place_again(request, draft.object().meta())?;
    // Plugins that change objects see the prefix of a name, those that judge them see the name: as
    // upstream, whose webhooks rely on it.
    metadata::generate_name(core, draft.change().meta_mut());
    metadata::fill_new(core, kind, draft.change().meta_mut());
    kind.warnings_before(draft.object()).iter().for_each(|it| request.notes.warn(it));
    // After the plugins: what nobody may set, they may not either.
    kind.prepare_create(draft.change());
    // What the cluster gives is validated and admitted like all else.
    hooks.complete(core, request, draft, None);
    let reserved = hooks.reserve(core, draft, None)?;
    validate(request, draft.object())?;
    request.warn_of(draft.object(), None);
    let valid = admit::validate(core, mutated, &context).await?;
    let draft = context.into_draft().expect("a write has an object");
    let draft = without_empties(request, draft);
    // Last, on what will be stored: nobody gets past it by what a plugin adds.
    hooks.validate_write(core, &Write { request, object: draft.object(), old: None })?;
    let sealed = Sealed::new(draft, &valid, reserved);
    let key = sealed.object().key();
    let path = ObjectPath::of(kind, &key.namespace, &key.name)?;
    let taken = || ApiError::already_exists(&kind.names().group_resource(), &key.name);
    if request.call.write.dry_run {
        core.cache.wait_current().await?;
        let is_free = core.cache.get(kind, &path).is_none();
        let dry = || (Outcome::Object(loose(sealed.bytes().clone())), 201);
        return is_free.then(dry).ok_or_else(taken);
    }
    let is_guarded = sealed.guard().is_some() && core.config.is_shared() || sealed.is_charged();
    let place = store::Place { path: &path, expect: Expect::Absent(may_create) };
    match store::put(core, request, place, sealed).await? {
        Written::Stored(stored) => Ok((Outcome::Object(stored), 201)),
        Written::Refused if is_guarded => {
            core.cache.wait_current().await?;
            match core.cache.get(kind, &path) {
                Some(_) => Err(taken()),
                None => Err(ApiError::modified(&kind.names().group_resource(), &key.name)),
            }
        }
        Written::Refused => Err(taken()),
    }
}

fn validate(request: &Request, object: &dyn ApiObject) -> Result<(), ApiError> {
    trace::passed("validate");
    let kind = request.kind.as_ref();
    let mut errors = FieldErrors::new();
    validate_metadata(object.meta(), kind.scope(), kind.name_rule(), &mut errors);
    kind.validate(object, &mut errors);
    kind.validate_create(object, &mut errors);
    errors.warnings().iter().for_each(|it| request.notes.warn(it));
    invalid_if_any(request.working_kind(), object, &errors)
}

pub(super) fn invalid_if_any(
    kind: &dyn Kind,
    object: &dyn ApiObject,
    errors: &FieldErrors,
) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object.meta().name.as_deref().unwrap_or_default();
    Err(ApiError::invalid(&kind.names().gvk().group_kind(), name, errors))
}
