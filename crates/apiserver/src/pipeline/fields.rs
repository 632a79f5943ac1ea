//! Field ownership: who wrote which field, kept in metadata.managedFields.

use std::cell::RefCell;
use std::error::Error;

use admission::Draft;
use api::{Kind, Part};
use apimachinery::ApiError;
use apimachinery::apply::{self, Resets, Unconverted, Versions, Writer, record_update};
use apimachinery::schema::SchemaRef;
use serde_json::{Map, Value};

use super::Request;
use super::core::Core;
use super::draft::ManagedFields as _;
use crate::registry::Family;

const MANAGED_FIELDS: &str = "managedFields";
/// Before, after and pruned, in as many versions as anybody writes in.
const CONVERSIONS_MAX: usize = 100;

/// Records this write in the object. `live` is the tree of the object before, in the version of the
/// request.
pub(super) async fn record(
    core: &Core,
    request: &Request,
    live: Option<&Value>,
    draft: &mut Draft,
) -> Result<(), ApiError> {
    let api_version = request.kind.names().api_version();
    let writer = writer(core, request, &api_version);
    let claimed = draft.take_managed_fields();
    let served = request.kind.served_from(draft.object()).map(|it| it.encode());
    let bytes = served.as_deref().unwrap_or_else(|| draft.bytes());
    let mut tree: Value = serde_json::from_slice(bytes).unwrap_or_default();
    // What is not written is nobody's.
    if request.has_empties && !request.kind.is_custom() {
        request.kind.schema().drop_empties(&mut tree);
        own_empty_lists(request, &mut tree);
    }
    let claimed = claimed.and_then(|it| serde_json::to_value(it).ok());
    if let (Some(claimed), Some(meta)) = (claimed, metadata(&mut tree)) {
        meta.insert(MANAGED_FIELDS.to_owned(), claimed);
    }
    let mut recorded = match request.family.is_slow() {
        // Most often there is nothing to wait for, and no copy is needed.
        false => {
            let versions = InFamily::new(&request.family, &[]);
            record_update(&versions, live, &mut tree, &writer).map_err(unrecorded)?;
            tree
        }
        true => {
            let record = |versions: &dyn Versions| {
                let mut tree = tree.clone();
                record_update(versions, live, &mut tree, &writer).map(|()| tree)
            };
            across_versions(&request.family, record).await?.map_err(unrecorded)?
        }
    };
    let entries = metadata(&mut recorded).and_then(|it| it.remove(MANAGED_FIELDS));
    let entries = entries.and_then(|it| serde_json::from_value(it).ok());
    if let Some(entries) = entries {
        draft.set_managed_fields(entries);
    }
    Ok(())
}

/// A list without items is the writer's where `null` is written of it.
fn own_empty_lists(request: &Request, tree: &mut Value) {
    for pointer in &request.empty_lists {
        if let Some(value @ Value::Null) = tree.pointer_mut(pointer) {
            *value = Value::Array(Vec::new());
        }
    }
}

fn unrecorded(why: impl Into<Box<dyn Error + Send + Sync>>) -> ApiError {
    ApiError::internal("the records of who wrote which field cannot be made").with_source(why)
}

/// Carries out what may need objects in other versions. Where these have to be waited for, it is
/// tried again with each that came.
pub(super) async fn across_versions<T>(
    family: &Family,
    work: impl Fn(&dyn Versions) -> Result<T, apply::Error>,
) -> Result<Result<T, apply::Error>, ApiError> {
    let mut known = Vec::new();
    loop {
        let (outcome, wanted) = {
            let versions = InFamily::new(family, &known);
            (work(&versions), versions.wanted.into_inner())
        };
        match (outcome, wanted) {
            (Err(apply::Error::Unconverted(Unconverted::NotYet)), Some((object, version)))
                if known.len() < CONVERSIONS_MAX =>
            {
                let json = serde_json::to_vec(&object).map_err(unrecorded)?;
                let converted = family.convert(json.into(), &version).await?;
                let converted = serde_json::from_slice(&converted).map_err(unrecorded)?;
                known.push(Known { object, version, converted });
            }
            (outcome, _) => return Ok(outcome),
        }
    }
}

/// An object that was converted.
struct Known {
    object: Value,
    version: String,
    converted: Value,
}

/// The versions of a family, as ownership is compared in them.
struct InFamily<'a> {
    family: &'a Family,
    known: &'a [Known],
    /// What could not be converted at once.
    wanted: RefCell<Option<(Value, String)>>,
}

impl<'a> InFamily<'a> {
    fn new(family: &'a Family, known: &'a [Known]) -> Self {
        Self { family, known, wanted: RefCell::default() }
    }
}

impl Versions for InFamily<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaRef> {
        self.family.kind_of(api_version).map(|it| it.schema())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
            return Ok(object.clone());
        }
        if self.family.is_slow() {
            let is_it = |it: &&Known| it.version == api_version && it.object == *object;
            return self.known.iter().find(is_it).map(|it| it.converted.clone()).ok_or_else(|| {
                *self.wanted.borrow_mut() = Some((object.clone(), api_version.to_owned()));
                Unconverted::NotYet
            });
        }
        let failed =
            |why: String| Unconverted::Failed(format!("converting to {api_version}: {why}"));
        let json = serde_json::to_vec(object).map_err(|err| failed(err.to_string()))?;
        let converted = self.family.convert_one(&json.into(), api_version).map_err(failed)?;
        let tree = converted.map(|it| serde_json::from_slice(&it)).transpose();
        Ok(tree.map_err(|err| failed(err.to_string()))?.unwrap_or_else(|| object.clone()))
    }

    fn zero(&self, api_version: &str) -> Option<Value> {
        self.family.kind_of(api_version)?.zero()
    }
}

fn metadata(tree: &mut Value) -> Option<&mut Map<String, Value>> {
    tree.get_mut("metadata").and_then(Value::as_object_mut)
}

pub(super) fn writer<'a>(core: &Core, request: &'a Request, api_version: &'a str) -> Writer<'a> {
    Writer {
        manager: request.manager(),
        api_version,
        subresource: request.subresource().unwrap_or_default(),
        now: super::metadata::now(core).0,
        resets: resets(request.kind.as_ref(), request.part()),
    }
}

/// What upstream's doors to a kind take from the stored object, where it is not what others take.
const RESETS: &[(&str, Part, &[&str])] = &[
    ("APIService", Part::Status, &["metadata", "spec"]),
    ("CertificateSigningRequest", Part::Main, &["spec", "status"]),
    ("CertificateSigningRequest", Part::Other("approval"), &["spec", "status.certificate"]),
    ("CertificateSigningRequest", Part::Status, &["spec", "status.conditions"]),
    ("CustomResourceDefinition", Part::Status, &["metadata", "spec"]),
    ("Deployment", Part::Status, &["metadata.labels", "spec"]),
    ("DeviceTaintRule", Part::Status, &["metadata", "spec"]),
    ("FlowSchema", Part::Status, &["metadata", "spec"]),
    ("Pod", Part::Status, &["metadata.deletionTimestamp", "metadata.ownerReferences", "spec"]),
    ("PodGroup", Part::Status, &["metadata", "spec"]),
    ("PriorityLevelConfiguration", Part::Status, &["metadata", "spec"]),
    ("ResourceClaim", Part::Status, &["metadata", "spec"]),
    ("ResourcePoolStatusRequest", Part::Status, &["metadata", "spec"]),
    ("ServiceCIDR", Part::Status, &["metadata", "spec"]),
    ("StorageVersion", Part::Status, &["metadata", "spec"]),
    ("StorageVersionMigration", Part::Status, &["metadata", "spec"]),
    ("ValidatingAdmissionPolicy", Part::Status, &["metadata", "spec"]),
    ("VolumeAttachment", Part::Status, &["metadata", "spec"]),
];

/// Of a pod's `resize` these alone are owned, as upstream has it
/// (pkg/registry/core/pod/strategy.go).
const RESIZED: Resets<'static> = Resets::AllBut(&[
    "spec.containers.*.resizePolicy",
    "spec.containers.*.resources",
    "spec.initContainers.*.resizePolicy",
    "spec.initContainers.*.resources",
]);

fn resets(kind: &dyn Kind, part: Part) -> Resets<'static> {
    let is_it = |it: &&(&str, Part, &[&str])| it.0 == kind.names().kind && it.1 == part;
    if let Some(resets) = RESETS.iter().find(is_it).filter(|_| !kind.is_custom()) {
        return Resets::Only(resets.2);
    }
    match part {
        Part::Main if kind.subresources().iter().any(|it| it.name == "status") => {
            Resets::Only(&["status"])
        }
        Part::Status if kind.is_custom() => Resets::Only(&["metadata", "spec"]),
        Part::Status => Resets::Only(&["spec"]),
        Part::Other("resize") => RESIZED,
        Part::Main | Part::Other(_) => Resets::Only(&[]),
    }
}
