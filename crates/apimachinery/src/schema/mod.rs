//! One schema model for built-in kinds and custom resources. It drives strict decoding, pruning,
//! defaulting and validation of custom resources, strategic merge, server-side apply and OpenAPI.

mod definitions;
mod format;
mod go;
mod shape;
mod strict;
mod structural;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::field::{FieldErrors, Path};

pub use definitions::Definitions;
pub use go::may_have_zero_time;
pub use values::Patterns;

pub type SchemaRef = Arc<Schema>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// Anything goes.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// How a list merges: `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map {
        keys: Vec<String>,
    },
}

/// `x-kubernetes-patch-strategy` and `-merge-key`, of strategic merge patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchRule {
    pub merge_key: Option<String>,
    /// `merge` among the strategies.
    pub is_merge: bool,
    /// `retainKeys` among the strategies.
    pub is_retain_keys: bool,
}

#[derive(Debug, Default)]
pub struct Schema {
    pub kind: Type,
    /// `int32`, `date-time`, `byte`, ...
    pub format: String,
    pub description: String,
    pub properties: BTreeMap<String, SchemaRef>,
    pub required: Vec<String>,
    pub items: Option<SchemaRef>,
    /// The schema of map values.
    pub additional: Option<SchemaRef>,
    pub list_type: ListType,
    /// `x-kubernetes-map-type: atomic`.
    pub is_atomic: bool,
    pub patch: PatchRule,
    /// The definition this stands for (`io.k8s.api.core.v1.PodSpec`); how OpenAPI writes a `$ref`.
    pub definition: String,
    /// For references: filled when the definitions are linked, so that recursive types are
    /// possible.
    pub target: OnceLock<std::sync::Weak<Self>>,
    pub nullable: bool,
    pub preserve_unknown: bool,
    pub is_embedded_resource: bool,
    pub default: Option<Value>,
    /// Value checks of custom resources (enum, pattern, minimum, allOf, ...), as written in the
    /// CRD.
    pub checks: Option<Box<Value>>,
    /// How many branches (allOf, anyOf, oneOf, not) there are in this schema and below; of the root
    /// of a custom resource.
    pub n_branches: usize,
    /// Every `pattern` in `checks`, compiled when first needed.
    pub patterns: OnceLock<Patterns>,
}

/// What strict decoding found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldReport {
    /// `unknown field "spec.a"`, `duplicate field "spec.b"`; at most 100.
    pub problems: Vec<String>,
    /// The first value of the wrong type, as upstream words it: `json: cannot unmarshal string into
    /// Go struct field DeploymentSpec.spec.replicas of type int32`.
    pub type_error: Option<String>,
    /// The first quantity that is none. Typed structs keep any text; in Go it does not come that
    /// far.
    pub quantity_error: Option<String>,
    /// Whether there is a list or a map without anything in it. Go keeps none.
    pub has_empties: bool,
    /// What the object says that it is; empty if it does not.
    pub api_version: String,
    pub kind: String,
}

impl Schema {
    /// Follows a reference to the schema that has the fields.
    pub fn resolve(self: &Arc<Self>) -> SchemaRef {
        self.target.get().and_then(std::sync::Weak::upgrade).unwrap_or_else(|| self.clone())
    }

    /// Checks raw JSON against the schema in one pass, without building a tree.
    pub fn validate_fields(self: &Arc<Self>, bytes: &[u8]) -> FieldReport {
        strict::validate(self, bytes)
    }

    /// Removes what the schema does not know; returns the paths removed (`spec.a`).
    pub fn prune(self: &Arc<Self>, value: &mut Value) -> Vec<String> {
        let mut removed = Vec::new();
        shape::prune(self, value, &mut String::new(), &mut removed);
        removed
    }

    /// Fills in defaults; whether any was missing.
    pub fn apply_defaults(self: &Arc<Self>, value: &mut Value) -> bool {
        shape::apply_defaults(self, value)
    }

    /// Whether there is anything that `apply_defaults` could fill in.
    pub fn has_defaults(&self) -> bool {
        let mut within = self.properties.values().chain(&self.items).chain(&self.additional);
        self.default.is_some() || within.any(|it| it.has_defaults())
    }

    /// Makes of `value` what Go's decoder makes of it: zero values for `null` and for what is
    /// absent, where typed structs would refuse.
    pub fn fill_in_zeros(self: &Arc<Self>, value: &mut Value) {
        go::fill_in_zeros(self, value);
    }

    /// Takes away lists and maps that have nothing in them: what Go stores and reads again has none.
    /// Structs without fields stay.
    pub fn drop_empties(self: &Arc<Self>, value: &mut Value) {
        go::drop_empties(self, value);
    }

    /// JSON with `null` for zero times, as Go writes them; `None` if there are none, as nearly always:
    /// ask `may_have_zero_time` first.
    pub fn with_zero_times(self: &Arc<Self>, json: &[u8]) -> Option<Vec<u8>> {
        let mut value = serde_json::from_slice(json).ok()?;
        go::write_zero_times(self, &mut value).then(|| value.to_string().into())
    }

    /// Checks types and values, with upstream's texts (`spec.x in body must be of type integer:
    /// "string"`).
    pub fn validate(self: &Arc<Self>, value: &Value, path: &Path, errors: &mut FieldErrors) {
        values::validate(self, value, path, errors);
    }

    /// Builds the schema of a custom resource version; problems are structural-schema violations.
    pub fn from_open_api(schema: &Value, path: &Path, errors: &mut FieldErrors) -> SchemaRef {
        structural::read(schema, path, errors)
    }

    /// The schema of a field, named or of the map's values.
    pub(crate) fn field(&self, name: &str) -> Option<&SchemaRef> {
        self.properties.get(name).or(self.additional.as_ref())
    }

    /// Whether fields that have no schema are welcome.
    pub(crate) fn accepts_any_field(&self) -> bool {
        self.preserve_unknown
            || self.kind == Type::Any
            || (self.properties.is_empty() && self.additional.is_none())
    }
}

/// The schema of what has none.
pub(crate) fn anything() -> &'static SchemaRef {
    static ANYTHING: OnceLock<SchemaRef> = OnceLock::new();
    ANYTHING.get_or_init(Arc::default)
}
