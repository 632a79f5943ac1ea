//! Claims to devices: who may have those of others, who may say which are allocated, and who may
//! speak of them for a driver.

mod drivers;

use api::core::Namespace;
use api::resource::{ResourceClaim, ResourceClaimTemplate};
use api::{Lookup, Part};
use apimachinery::field::Path;
use apimachinery::{ApiError, FieldErrors, ObjectKey};
use authz::Attributes;
use k8s_openapi::api::resource::v1::{ResourceClaimSpec, ResourceClaimStatus};

use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of, Write};

const GROUP: &str = "resource.k8s.io";
/// Namespaces with it may have devices that others use, to look after them.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

pub(crate) struct ResourceClaims;

impl Hooks for ResourceClaims {
    fn of(&self) -> &'static [Of] {
        &[(GROUP, "resourceclaims"), (GROUP, "resourceclaimtemplates")]
    }

    fn validate_write(&self, core: &Core, write: &Write<'_>) -> Result<(), ApiError> {
        let mut errors = FieldErrors::new();
        let claim = write.object.downcast_ref::<ResourceClaim>();
        let template = write.object.downcast_ref::<ResourceClaimTemplate>();
        let spec = claim.map(|it| &it.spec).or_else(|| template.map(|it| &it.spec.spec));
        // What is asked for never changes.
        if let Some(spec) = spec.filter(|_| write.old.is_none()) {
            validate_admin(core, write, admin_request(spec), &mut errors);
        }
        let old = write.old.and_then(|it| it.downcast_ref::<ResourceClaim>());
        if let (Some(claim), Some(old), Part::Status) = (claim, old, write.request.part()) {
            let none = ResourceClaimStatus::default();
            let (new, old) =
                (claim.status.as_ref().unwrap_or(&none), old.status.as_ref().unwrap_or(&none));
            validate_status(core, write, (new, old), &mut errors);
        }
        if errors.is_empty() {
            return Ok(());
        }
        let name = write.object.meta().name.as_deref().unwrap_or_default();
        let kind = write.request.kind.names().gvk().group_kind();
        Err(ApiError::invalid(&kind, name, &errors))
    }
}

/// Where a request asks for devices that others may use.
fn admin_request(spec: &ResourceClaimSpec) -> Option<Path> {
    let mut requests = spec.devices.iter().flat_map(|it| it.requests.iter().flatten());
    let is_admin = requests.position(|it| {
        it.exactly.as_ref().is_some_and(|exactly| exactly.admin_access == Some(true))
    });
    let path = Path::new("spec").child("devices").child("requests");
    is_admin.map(|index| path.index(index).child("adminAccess"))
}

/// The same, of what was allocated.
fn admin_result(status: &ResourceClaimStatus) -> Option<Path> {
    let devices = status.allocation.as_ref().and_then(|it| it.devices.as_ref());
    let mut results = devices.into_iter().flat_map(|it| it.results.iter().flatten());
    let index = results.position(|it| it.admin_access == Some(true))?;
    let path = Path::new("status").child("allocation").child("devices").child("results");
    Some(path.index(index).child("adminAccess"))
}

fn validate_admin(core: &Core, write: &Write<'_>, at: Option<Path>, errors: &mut FieldErrors) {
    let Some(path) = at else { return };
    let lookup: &dyn Lookup = core.cache.as_ref();
    let namespace = lookup.get::<Namespace>(&ObjectKey::new("", write.request.namespace()));
    let labels = namespace.as_ref().and_then(|it| it.metadata.labels.as_ref());
    if labels.and_then(|it| it.get(ADMIN_LABEL)).is_none_or(|it| it != "true") {
        let why = format!(
            "admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        );
        errors.forbidden(&path, &why);
    }
}

fn validate_status(
    core: &Core,
    write: &Write<'_>,
    (new, old): (&ResourceClaimStatus, &ResourceClaimStatus),
    errors: &mut FieldErrors,
) {
    if admin_result(old).is_none() {
        validate_admin(core, write, admin_result(new), errors);
    }
    let path = Path::new("status");
    let verb = write.request.call.verb.name();
    if (&new.allocation, &new.reserved_for) != (&old.allocation, &old.reserved_for) {
        let attributes = Attributes::resource(verb, GROUP, "resourceclaims/binding");
        if let Err(refused) = authorize(core, write, attributes) {
            let why = format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {refused}"
            );
            errors.forbidden(&path.child("allocation"), &why);
        }
    }
    if new.allocation.is_some() {
        drivers::validate(core, write, (new, old), &path.child("devices"), errors);
    }
}

/// In the version of the request.
fn authorize(core: &Core, write: &Write<'_>, attributes: Attributes) -> Result<(), ApiError> {
    let version = write.request.kind.names().version.clone();
    let attributes = Attributes { version, ..attributes };
    core.authorizer.authorize(write.request.user(), attributes).map(drop).map_err(ApiError::from)
}
