//! One schema model for built-in kinds and custom resources. It drives strict decoding, pruning,
//! defaulting and validation of custom resources, strategic merge, server-side apply and OpenAPI.

mod correlation;
mod definitions;
mod duration;
mod embedded;
mod fields;
mod fit;
mod format;
mod go;
mod go_text;
mod shape;
mod strict;
mod structural;
#[cfg(test)]
mod tests;
mod undeclared;
mod values;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::field::{FieldErrors, Path};

pub use correlation::{Correlated, Keyed, Ratchet};
pub use definitions::Definitions;
pub use duration::parse_duration;
pub use fields::visit_fields;
pub use fit::Absent;
pub use structural::Problems;
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
    /// `replace` among the strategies.
    pub is_replace: bool,
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
    /// `additionalProperties: false`, of custom resources: other fields are refused, and not dropped.
    pub is_sealed: bool,
    pub list_type: ListType,
    /// `x-kubernetes-map-type: atomic`.
    pub is_atomic: bool,
    /// `x-kubernetes-map-type: granular`: not here, whatever the type says.
    pub is_granular: bool,
    pub patch: PatchRule,
    /// The definition this stands for (`io.k8s.api.core.v1.PodSpec`); how OpenAPI writes a `$ref`.
    pub definition: String,
    /// For references: filled when the definitions are linked, so that recursive types are
    /// possible.
    pub target: OnceLock<std::sync::Weak<Self>>,
    pub nullable: bool,
    pub preserve_unknown: bool,
    /// Without any field named there is none: of custom resources. (Elsewhere that means a value of
    /// any form.)
    pub is_closed: bool,
    pub is_embedded_resource: bool,
    /// Whether metadata is added to what the author says: of whole objects.
    pub has_given_metadata: bool,
    /// What the author says about metadata. Among the properties it is as every object has it.
    pub own_metadata: Option<SchemaRef>,
    /// Whether the author says what apiVersion and kind are.
    pub names_type: bool,
    pub default: Option<Value>,
    /// The type in Go, where the rest does not say it: `v1.RestartPolicy`.
    pub go_type: String,
    /// What Go names on the way to this field: the structs that it is inlined from.
    pub go_embedded: String,
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
    /// The first value that reads itself, and cannot: a quantity, a time, a port. There Go stops,
    /// whatever was wrong before. Typed structs keep any text as a quantity.
    pub fatal_error: Option<String>,
    /// Whether there is a list or a map without anything in it. Go keeps none.
    pub has_empties: bool,
    /// JSON pointers to the lists among them; at most 100.
    pub empty_lists: Vec<String>,
    /// Whether a quantity is written in another form than Go writes it in.
    pub has_loose_quantities: bool,
    /// What the object says that it is; empty if it does not.
    pub api_version: String,
    pub kind: String,
}

impl FieldReport {
    /// Why Go would not read the object, in its words.
    pub fn refusal(self) -> Option<String> {
        self.fatal_error.or(self.type_error)
    }
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

    /// The fields that server-side apply does not know what to do with, as paths (`.spec.a`).
    pub fn undeclared(self: &Arc<Self>, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        undeclared::find(self, value, &mut String::new(), &mut found);
        found
    }

    /// Fills in defaults; whether any was missing.
    pub fn apply_defaults(self: &Arc<Self>, value: &mut Value) -> bool {
        shape::apply_defaults(self, value)
    }

    /// Takes away nulls that may not be, but for those that `apply_defaults` would replace.
    pub fn drop_nulls(self: &Arc<Self>, value: &mut Value) {
        shape::drop_nulls(self, value);
    }

    /// Whether a whole object of a custom resource, of which this is what its author says, is as
    /// `prune` and `drop_nulls` leave it; and as `apply_defaults` does, if absent fields are filled
    /// in. One pass, without building a tree.
    pub fn fits(self: &Arc<Self>, bytes: &[u8], absent: Absent) -> bool {
        fit::fits(self, bytes, absent)
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

    /// Cuts numbers down to what Go's types hold: what it does with objects that it has read
    /// without knowing their types.
    pub fn wrap_integers(self: &Arc<Self>, value: &mut Value) {
        go::wrap_integers(self, value);
    }

    /// Writes every quantity as Go does: `0.5Gi` becomes `512Mi`.
    pub fn write_quantities(self: &Arc<Self>, value: &mut Value) {
        go::write_quantities(self, value);
    }

    /// Checks types and values, with upstream's texts (`spec.x in body must be of type integer:
    /// "string"`).
    pub fn validate(self: &Arc<Self>, value: &Value, path: &Path, errors: &mut FieldErrors) {
        self.validate_values(value, None, path, errors);
        self.validate_embedded(value, path, errors);
        self.validate_lists(value, path, errors);
    }

    /// The first part of that. Parts that are as they were `before` are not refused.
    pub fn validate_values(
        self: &Arc<Self>,
        value: &Value,
        before: Option<&Correlated<'_>>,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        values::validate(self, value, before, path, errors);
    }

    /// The second: embedded objects have an apiVersion and a kind.
    pub fn validate_embedded(
        self: &Arc<Self>,
        value: &Value,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        embedded::validate(self, value, path, errors);
    }

    /// The third: nothing is twice in lists where it must not be.
    pub fn validate_lists(self: &Arc<Self>, value: &Value, path: &Path, errors: &mut FieldErrors) {
        values::validate_lists(self, value, path, errors);
    }

    /// Builds the schema of a custom resource version; problems are structural-schema violations.
    pub fn from_open_api(schema: &Value, path: &Path, errors: &mut FieldErrors) -> SchemaRef {
        let (schema, problems) = Self::judge_open_api(schema, path);
        errors.extend(problems.structure);
        errors.extend(problems.standard);
        schema
    }

    /// The same, with problems told apart.
    pub fn judge_open_api(schema: &Value, path: &Path) -> (SchemaRef, Problems) {
        structural::read(schema, path)
    }

    /// Any JSON at all, though clients are told that it is an object.
    pub(crate) fn is_free_form(&self) -> bool {
        self.kind == Type::Object
            && self.preserve_unknown
            && self.properties.is_empty()
            && !self.definition.is_empty()
    }

    /// The schema of a field, named or of the map's values.
    pub(crate) fn field(&self, name: &str) -> Option<&SchemaRef> {
        self.properties.get(name).or(self.additional.as_ref())
    }

    /// Whether it is free JSON that belongs to somebody else, and so is a whole.
    pub(crate) fn is_raw(&self) -> bool {
        self.definition.ends_with(".RawExtension")
    }

    pub(crate) fn is_quantity(&self) -> bool {
        self.definition == definitions::QUANTITY
    }

    /// Whether fields that have no schema are welcome.
    pub(crate) fn accepts_any_field(&self) -> bool {
        self.preserve_unknown
            || self.kind == Type::Any
            || (!self.is_closed
                && self.properties.is_empty()
                && self.additional.is_none()
                && !self.is_empty_struct())
    }

    /// A struct of Go's that has no fields. Typed structs keep anything there.
    pub(crate) fn is_empty_struct(&self) -> bool {
        self.kind == Type::Object
            && !self.definition.is_empty()
            && !self.preserve_unknown
            && self.properties.is_empty()
            && self.additional.is_none()
    }
}

/// The schema of what has none.
pub(crate) fn anything() -> &'static SchemaRef {
    static ANYTHING: OnceLock<SchemaRef> = OnceLock::new();
    ANYTHING.get_or_init(Arc::default)
}
