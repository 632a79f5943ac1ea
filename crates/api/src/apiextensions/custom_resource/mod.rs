//! A kind that a CustomResourceDefinition defines: one served version, with its schema, columns and
//! subresources.
//!
//! Objects are `Dynamic`. Where versions differ in `apiVersion` alone (conversion strategy None), an
//! object that was stored in another version of the group is read by rewriting it.

mod columns;
mod finalizers;
mod judge;
mod kept;
#[cfg(test)]
mod rule_tests;
mod schemas;
mod stopwatch;
#[cfg(test)]
mod tests;
mod versions;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use apimachinery::schema::{Absent, FieldReport, Schema, SchemaRef, Type};
use apimachinery::table::Column;
use apimachinery::{FieldErrors, NameRule, Names, Path, Scope};

use super::custom_resource_definition::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, has_condition, is_established,
};
use super::json_path::JsonPath;
use crate::kind::{DeletePolicy, Kind, Part, Scale, Subresource, VERBS_ALL};
use crate::object::{ApiObject, Dynamic, Stored};
use crate::{codec, halves};
use columns::PrinterColumn;
use schemas::Schemas;
pub use stopwatch::{Stopwatch, Unmeasured, Work};
use versions::Versions;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

pub struct CustomKind {
    names: Names,
    scope: Scope,
    storage_version: String,
    /// Of the definition, and which one this is.
    versions: Arc<Versions>,
    place: usize,
    stopwatch: Arc<dyn Stopwatch>,
    columns: Vec<PrinterColumn>,
    has_status: bool,
    scale: Option<ScalePaths>,
    /// Name (`spec.color`) and path.
    selectable: Vec<(String, JsonPath)>,
    /// Of every version: what is stored is selected from by each.
    selectable_in_any: Vec<(String, JsonPath)>,
    deprecation: Option<String>,
    is_terminating: bool,
    /// Of a kind that the server itself answers for.
    unstored: Option<Table>,
}

/// How objects are shown whose columns are no paths.
pub struct Table {
    pub columns: &'static [Column],
    pub row: fn(&Value) -> Vec<Value>,
}

struct ScalePaths {
    spec_replicas: JsonPath,
    status_replicas: JsonPath,
    selector: Option<JsonPath>,
}

impl CustomKind {
    /// One per served version, when the definition is established.
    pub fn of(crd: &CustomResourceDefinition) -> Vec<Arc<dyn Kind>> {
        Self::measured(crd, &Unmeasured::shared())
    }

    /// The same, where somebody wants to know how long their rules take.
    pub fn measured(
        crd: &CustomResourceDefinition,
        stopwatch: &Arc<dyn Stopwatch>,
    ) -> Vec<Arc<dyn Kind>> {
        if !is_established(crd) {
            return Vec::new();
        }
        // One copy, however many versions there are to serve.
        let versions = Versions::of(crd, stopwatch);
        let served = crd.spec.versions.iter().filter(|it| it.served);
        let kind = |it| Arc::new(Self::timed(crd, it, &versions, stopwatch)) as Arc<dyn Kind>;
        served.map(kind).collect()
    }

    /// The kind of one version of a valid definition, under its accepted names.
    pub fn new(crd: &CustomResourceDefinition, version: &CustomResourceDefinitionVersion) -> Self {
        let stopwatch = Unmeasured::shared();
        Self::timed(crd, version, &Versions::of(crd, &stopwatch), &stopwatch)
    }

    fn timed(
        crd: &CustomResourceDefinition,
        version: &CustomResourceDefinitionVersion,
        versions: &Arc<Versions>,
        stopwatch: &Arc<dyn Stopwatch>,
    ) -> Self {
        let storage = crd.spec.versions.iter().find(|it| it.storage).unwrap_or(version);
        let names = names(crd, version);
        let subresources = version.subresources.as_ref();
        Self {
            versions: versions.clone(),
            place: versions.place_of(&version.name),
            stopwatch: stopwatch.clone(),
            scope: if crd.spec.scope == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
            storage_version: storage.name.clone(),
            columns: columns::of(version),
            has_status: subresources.is_some_and(|it| it.status.is_some()),
            scale: subresources.and_then(|it| it.scale.as_ref()).and_then(|it| {
                Some(ScalePaths {
                    spec_replicas: JsonPath::parse(&it.spec_replicas_path).ok()?,
                    status_replicas: JsonPath::parse(&it.status_replicas_path).ok()?,
                    selector: it.label_selector_path.as_deref().and_then(parse),
                })
            }),
            selectable: selectable(version),
            selectable_in_any: selectable_in_any(crd),
            deprecation: deprecation(&names, version),
            is_terminating: has_condition(crd, "Terminating"),
            unstored: None,
            names,
        }
    }

    /// A kind of the server's own that is only read, and stored nowhere: described as a custom one,
    /// with one version.
    pub fn unstored(crd: &CustomResourceDefinition, table: Table) -> Self {
        let version = crd.spec.versions.first().expect("it has a version");
        Self { unstored: Some(table), ..Self::new(crd, version) }
    }

    fn schemas(&self) -> &Schemas {
        self.versions.schemas(self.place)
    }

    fn is_own_api_version(&self, api_version: &str) -> bool {
        api_version == self.names.api_version()
    }
}

fn selectable(version: &CustomResourceDefinitionVersion) -> Vec<(String, JsonPath)> {
    let fields = version.selectable_fields.iter().flatten();
    let named = fields.filter_map(|it| {
        let name = it.json_path.trim_start_matches('.').to_owned();
        Some((name, parse(&it.json_path)?))
    });
    named.collect()
}

fn selectable_in_any(crd: &CustomResourceDefinition) -> Vec<(String, JsonPath)> {
    let all = crd.spec.versions.iter().flat_map(selectable);
    all.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// The text of its schema.
fn written(version: &CustomResourceDefinitionVersion) -> Arc<str> {
    let written = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
    written.map(codec::tree).unwrap_or_default().to_string().into()
}

/// The definition was validated when it was written.
fn read_schema(written: &Value) -> SchemaRef {
    Schema::from_open_api(written, &Path::root(), &mut FieldErrors::new())
}

fn parse(path: &str) -> Option<JsonPath> {
    JsonPath::parse(path).ok()
}

fn names(crd: &CustomResourceDefinition, version: &CustomResourceDefinitionVersion) -> Names {
    let accepted = crd.status.as_ref().and_then(|it| it.accepted_names.as_ref());
    let names = accepted.filter(|it| !it.plural.is_empty()).unwrap_or(&crd.spec.names);
    Names {
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone().unwrap_or_else(|| format!("{}List", names.kind)),
        plural: names.plural.clone(),
        singular: names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase()),
        short_names: names.short_names.clone().unwrap_or_default(),
        categories: names.categories.clone().unwrap_or_default(),
    }
}

fn deprecation(names: &Names, version: &CustomResourceDefinitionVersion) -> Option<String> {
    if version.deprecated != Some(true) {
        return None;
    }
    let default = || format!("{} {} is deprecated", names.api_version(), names.kind);
    Some(version.deprecation_warning.clone().unwrap_or_else(default))
}

/// The schema with the fields that every object has; the author's restrictions of metadata stay in
/// `own`.
fn with_metadata(own: &SchemaRef) -> SchemaRef {
    let text = || Arc::new(Schema { kind: Type::String, ..Schema::default() });
    let mut properties: BTreeMap<String, SchemaRef> = own.properties.clone();
    properties.insert("apiVersion".to_owned(), text());
    properties.insert("kind".to_owned(), text());
    properties.insert("metadata".to_owned(), crate::schema(OBJECT_META));
    Arc::new(Schema {
        kind: Type::Object,
        properties,
        required: own.required.clone(),
        additional: own.additional.clone(),
        is_atomic: own.is_atomic,
        preserve_unknown: own.preserve_unknown,
        is_closed: own.is_closed,
        default: own.default.clone(),
        checks: own.checks.clone(),
        ..Schema::default()
    })
}

fn of(object: &dyn ApiObject) -> &Dynamic {
    object.downcast_ref().expect("a kind is only given objects that it decoded")
}

fn of_mut(object: &mut dyn ApiObject) -> &mut Dynamic {
    object.downcast_mut().expect("a kind is only given objects that it decoded")
}

fn boxed(object: Dynamic) -> Box<dyn ApiObject> {
    Box::new(object)
}

/// Runs `change` on the fields of an object as one JSON tree.
fn with_tree<R>(rest: &mut Map<String, Value>, change: impl FnOnce(&mut Value) -> R) -> R {
    let mut tree = Value::Object(std::mem::take(rest));
    let result = change(&mut tree);
    if let Value::Object(fields) = tree {
        *rest = fields;
    }
    result
}

impl Kind for CustomKind {
    fn names(&self) -> &Names {
        &self.names
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    /// Nothing is added to what is being removed.
    fn verbs(&self) -> Vec<&'static str> {
        if self.unstored.is_some() {
            return vec!["get", "list"];
        }
        let verbs = VERBS_ALL.iter().copied();
        verbs.filter(|it| !self.is_terminating || *it != "create").collect()
    }

    fn subresources(&self) -> Vec<Subresource> {
        let scale = self.scale.as_ref().map(|_| Subresource::SCALE);
        let status = self.has_status.then_some(Subresource::STATUS);
        scale.into_iter().chain(status).collect()
    }

    fn registry_prefix(&self) -> String {
        if self.unstored.is_some() {
            return String::new();
        }
        format!("{}/{}", self.names.group, self.names.plural)
    }

    /// The first 8 bytes of the SHA-256 of `group/version/kind`, of the stored version.
    fn storage_version_hash(&self) -> String {
        if self.unstored.is_some() {
            return String::new();
        }
        let name = format!("{}/{}/{}", self.names.group, self.storage_version, self.names.kind);
        let hash = Sha256::digest(name.as_bytes());
        base64::engine::general_purpose::STANDARD.encode(&hash[..8])
    }

    fn storage_version(&self) -> &str {
        &self.storage_version
    }

    fn schema(&self) -> SchemaRef {
        self.schemas().whole()
    }

    /// `org.example.v1.Fruit`
    fn definition(&self) -> String {
        let mut group: Vec<&str> = self.names.group.split('.').collect();
        group.reverse();
        format!("{}.{}.{}", group.join("."), self.names.version, self.names.kind)
    }

    fn written_schema(&self) -> Option<Value> {
        Some(self.schemas().written())
    }

    fn description_id(&self) -> Option<[u8; 32]> {
        let names = &self.names;
        let subresources: Vec<&str> = self.subresources().iter().map(|it| it.name).collect();
        let said = format!("{names:?} {:?} {:?} {subresources:?}", self.scope, self.verbs());
        Some(Sha256::new().chain_update(said).chain_update(self.schemas().text()).finalize().into())
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
    }

    fn creates_on_update(&self) -> bool {
        false
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn default_delete(&self) -> DeletePolicy {
        DeletePolicy::Background
    }

    fn returns_deleted(&self) -> bool {
        false
    }

    fn is_custom(&self) -> bool {
        self.unstored.is_none()
    }

    fn has_protobuf(&self) -> bool {
        false
    }

    fn is_compiled(&self) -> bool {
        self.versions.is_compiled(self.place)
    }

    fn sweep(&self) {
        self.versions.sweep(self.place);
    }

    /// Drops what the schema does not let be, fills in a missing apiVersion and kind, and reads other
    /// versions of the group as this one. What is dropped is reported by
    /// `schema().validate_fields`, on the bytes.
    fn decode(&self, bytes: &[u8]) -> Result<Box<dyn ApiObject>, serde_json::Error> {
        let mut object = Dynamic::decode(bytes)?;
        self.versions.prune(self.place, &mut object);
        let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
        if object.api_version.is_empty() || group == self.names.group {
            object.api_version = self.names.api_version();
        }
        if object.kind.is_empty() {
            object.kind.clone_from(&self.names.kind);
        }
        Ok(Box::new(object))
    }

    /// In upstream's order, which looks for one kind of problem after the other: what is said twice,
    /// what metadata has beside its fields, what is pruned, and what the metadata of embedded
    /// objects has.
    fn decode_reporting(
        &self,
        bytes: &[u8],
    ) -> Result<(Box<dyn ApiObject>, FieldReport), serde_json::Error> {
        let mut report = self.schemas().whole().validate_fields(bytes);
        if self.versions.keeps_unknown() {
            report.problems.retain(|it| !it.starts_with("unknown field"));
        }
        let rank = |problem: &str| match problem.strip_prefix("unknown field \"") {
            None => 0,
            Some(path) if path.starts_with("metadata.") => 1,
            Some(path) if path.contains(".metadata.") => 3,
            Some(_) => 2,
        };
        report.problems.sort_by(|one, other| {
            let order = rank(one).cmp(&rank(other));
            order.then_with(|| if rank(one) == 0 { Ordering::Equal } else { one.cmp(other) })
        });
        Ok((self.decode(bytes)?, report))
    }

    fn decode_any(
        &self,
        bytes: &[u8],
        absent: Absent,
    ) -> Result<Box<dyn ApiObject>, serde_json::Error> {
        self.versions.read(bytes, absent).map(boxed)
    }

    fn complete_stored(&self, stored: &Stored) -> Option<Box<dyn ApiObject>> {
        self.versions.complete(stored).map(boxed)
    }

    fn read_stored(&self, stored: &Stored) -> Option<Box<dyn ApiObject>> {
        self.versions.read_as(self.place, stored).map(boxed)
    }

    fn apply_defaults(&self, object: &mut dyn ApiObject) {
        with_tree(&mut of_mut(object).rest, |it| self.schemas().own().apply_defaults(it));
    }

    fn prepare_create(&self, object: &mut dyn ApiObject) {
        if self.has_status {
            of_mut(object).rest.remove("status");
        }
    }

    fn prepare_update(&self, object: &mut dyn ApiObject, stored: &dyn ApiObject, part: Part) {
        let (object, stored) = (of_mut(object), of(stored));
        match part {
            Part::Main if self.has_status => copy_status(&stored.rest, &mut object.rest),
            Part::Status => {
                let mut rest = stored.rest.clone();
                copy_status(&object.rest, &mut rest);
                object.rest = rest;
                halves::keep_metadata(&mut object.metadata, &stored.metadata);
            }
            Part::Main | Part::Other(_) => {}
        }
    }

    fn is_new_generation(&self, object: &dyn ApiObject, stored: &dyn ApiObject) -> bool {
        let fields = |it: &dyn ApiObject| -> Map<String, Value> {
            let rest = of(it).rest.iter();
            rest.filter(|(name, _)| !self.has_status || *name != "status")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        fields(object) != fields(stored)
    }

    fn validate(&self, object: &dyn ApiObject, errors: &mut FieldErrors) {
        let dynamic = of(object);
        let (api_version, kind) = (dynamic.api_version.as_str(), dynamic.kind.as_str());
        if !self.is_own_api_version(api_version) {
            let why = format!("must be {}", self.names.api_version());
            errors.invalid(&Path::new("apiVersion"), api_version, &why);
        }
        if kind != self.names.kind {
            errors.invalid(&Path::new("kind"), kind, &format!("must be {}", self.names.kind));
        }
    }

    fn validate_create(&self, object: &dyn ApiObject, errors: &mut FieldErrors) {
        self.judge(&object.to_value(), None, errors);
    }

    fn validate_update(
        &self,
        object: &dyn ApiObject,
        stored: &dyn ApiObject,
        part: Part,
        errors: &mut FieldErrors,
    ) {
        self.judge(&object.to_value(), Some((&stored.to_value(), part)), errors);
    }

    fn deprecation(&self) -> Option<String> {
        self.deprecation.clone()
    }

    fn warnings(&self, object: &dyn ApiObject) -> Vec<String> {
        finalizers::warnings(object.meta(), &[])
    }

    fn update_warnings(
        &self,
        object: &dyn ApiObject,
        stored: &dyn ApiObject,
        part: Part,
    ) -> Vec<String> {
        if part == Part::Status {
            return Vec::new();
        }
        let before = stored.meta().finalizers.as_deref().unwrap_or_default();
        finalizers::warnings(object.meta(), before)
    }

    fn columns(&self) -> Vec<Column> {
        if let Some(table) = &self.unstored {
            return table.columns.to_vec();
        }
        let own = self.columns.iter().map(|it| it.column.clone());
        let own = own.map(|it| columns::described(it, "creationTimestamp"));
        [columns::described(Column::name(), "name")].into_iter().chain(own).collect()
    }

    fn row(&self, object: &dyn ApiObject, now: Timestamp) -> Vec<Value> {
        let name = Value::from(object.meta().name.clone().unwrap_or_default());
        let tree = object.to_value();
        if let Some(table) = &self.unstored {
            return (table.row)(&tree);
        }
        let own = self.columns.iter().map(|it| it.cell(&tree, now));
        [name].into_iter().chain(own).collect()
    }

    fn row_conditions(&self, _object: &dyn ApiObject) -> Vec<Value> {
        Vec::new()
    }

    fn fields(&self, object: &dyn ApiObject) -> Vec<(Cow<'static, str>, String)> {
        if self.selectable_in_any.is_empty() {
            return Vec::new();
        }
        let tree = object.to_value();
        let text = |path: &JsonPath| path.find(&tree).map(columns::plain_text).unwrap_or_default();
        self.selectable_in_any
            .iter()
            .map(|(name, path)| (Cow::Owned(name.clone()), text(path)))
            .collect()
    }

    fn has_fields(&self) -> bool {
        !self.selectable_in_any.is_empty()
    }

    fn field_names(&self) -> Vec<(Cow<'static, str>, Cow<'static, str>)> {
        let names = self.selectable.iter().map(|(name, _)| name.clone());
        names.map(|it| (Cow::Owned(it.clone()), Cow::Owned(it))).collect()
    }

    fn grace_seconds(&self, _object: &dyn ApiObject, _requested: Option<i64>) -> Option<i64> {
        None
    }

    fn scale(&self, object: &dyn ApiObject) -> Option<Scale> {
        let paths = self.scale.as_ref()?;
        let tree = object.to_value();
        let number = |path: &JsonPath| {
            let found = path.find(&tree).and_then(Value::as_i64);
            found.and_then(|it| i32::try_from(it).ok()).unwrap_or_default()
        };
        let selector =
            paths.selector.as_ref().and_then(|it| it.find(&tree)).and_then(Value::as_str);
        Some(Scale {
            spec_replicas: number(&paths.spec_replicas),
            status_replicas: number(&paths.status_replicas),
            selector: selector.unwrap_or_default().to_owned(),
        })
    }

    fn set_replicas(&self, object: &mut dyn ApiObject, replicas: i32) {
        if let Some(paths) = &self.scale {
            with_tree(&mut of_mut(object).rest, |it| paths.spec_replicas.set(it, replicas.into()));
        }
    }
}

fn copy_status(from: &Map<String, Value>, to: &mut Map<String, Value>) {
    match from.get("status") {
        Some(status) => to.insert("status".to_owned(), status.clone()),
        None => to.remove("status"),
    };
}
