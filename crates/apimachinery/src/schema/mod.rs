//! One schema model for built-in kinds and custom resources. It drives strict decoding, pruning,
//! defaulting and validation of custom resources, strategic merge, server-side apply and OpenAPI.

mod definitions;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::field::{FieldErrors, Path};

pub use definitions::Definitions;

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
    /// For references: filled when the definitions are linked, so that recursive types are possible.
    pub target: OnceLock<std::sync::Weak<Self>>,
    pub nullable: bool,
    pub preserve_unknown: bool,
    pub is_embedded_resource: bool,
    pub default: Option<Value>,
    /// Value checks of custom resources (enum, pattern, minimum, allOf, ...), as written in the CRD.
    pub checks: Option<Box<Value>>,
}

/// What strict decoding found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldReport {
    /// `unknown field "spec.a"`, `duplicate field "spec.b"`; at most 100.
    pub problems: Vec<String>,
    /// The first value of the wrong type, as upstream words it:
    /// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
    pub type_error: Option<String>,
}

impl Schema {
    /// Follows a reference to the schema that has the fields.
    pub fn resolve(self: &Arc<Self>) -> SchemaRef {
        self.target.get().and_then(std::sync::Weak::upgrade).unwrap_or_else(|| self.clone())
    }

    /// Checks raw JSON against the schema in one pass, without building a tree.
    pub fn check_fields(self: &Arc<Self>, bytes: &[u8]) -> FieldReport {
        let _ = bytes;
        todo!("apimachinery")
    }

    /// Removes what the schema does not know; returns the paths removed (`spec.a`).
    pub fn prune(self: &Arc<Self>, value: &mut Value) -> Vec<String> {
        let _ = value;
        todo!("apimachinery")
    }

    /// Fills in defaults.
    pub fn apply_defaults(self: &Arc<Self>, value: &mut Value) {
        let _ = value;
        todo!("apimachinery")
    }

    /// Checks types and values, with upstream's texts (`spec.x in body must be of type integer: "string"`).
    pub fn validate(self: &Arc<Self>, value: &Value, path: &Path, errors: &mut FieldErrors) {
        let _ = (value, path, errors);
        todo!("apimachinery")
    }

    /// Builds the schema of a custom resource version; problems are structural-schema violations.
    pub fn from_open_api(schema: &Value, path: &Path, errors: &mut FieldErrors) -> SchemaRef {
        let _ = (schema, path, errors);
        todo!("apimachinery")
    }
}
