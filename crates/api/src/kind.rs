//! The two traits that describe an API resource.
//!
//! `Resource` is written by hand for each built-in kind, on its typed struct. `Kind` is what the
//! server sees: the same with the type erased. `Typed<T>` turns the first into the second; a custom
//! resource implements `Kind` itself, from its OpenAPI schema. All of it is pure.

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use apimachinery::schema::{Absent, FieldReport, SchemaRef};
use apimachinery::table::Column;
use apimachinery::{FieldErrors, GroupVersionKind, NameRule, Names, Scope};

use crate::object::{ApiObject, Stored};
use crate::version::Version;

/// What DELETE does with dependents when the request does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletePolicy {
    Background,
    Orphan,
}

/// Everything about a kind that is a plain fact. They are in `facts/`: see `Facts::of`.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub scope: Scope,
    /// Sorted, as discovery shows them. Kinds that are not stored have only `create`.
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    /// The stored key: `/registry/<prefix>/<namespace>/<name>`; empty when not stored.
    pub registry_prefix: &'static str,
    /// The version that Kubernetes stores it in; empty when not stored.
    pub stored_version: &'static str,
    pub storage_version_hash: &'static str,
    /// The definition that describes it in OpenAPI: `io.k8s.api.apps.v1.Deployment`.
    pub definition: &'static str,
    pub name_rule: NameRule,
    /// PUT of an absent object creates it.
    pub creates_on_update: bool,
    /// PUT without a resourceVersion is allowed.
    pub updates_unconditionally: bool,
    /// metadata.generation starts at 1 and follows the spec.
    pub has_generation: bool,
    pub default_delete: DeletePolicy,
    /// DELETE answers with the deleted object and not with a Status.
    pub returns_deleted: bool,
    /// How often upstream checks labels, annotations and owners when the object is updated, and
    /// when its status is: so often a refusal names what is wrong.
    pub metadata_checks: (usize, usize),
    /// An update is checked as a new object is, once more than it needs.
    pub validates_twice: bool,
    /// A refused update names first what may not change, then what may not be.
    pub judges_changes_first: bool,
}

/// Whose writes are acknowledged before they are on disk. For what is written often, is soon
/// written again, and says only how things were a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relaxed {
    Nothing,
    InNamespace(&'static str),
    Everything,
}

/// Of a part of an object that comes and goes with the whole.
pub const VERBS_PART: &[&str] = &["get", "patch", "update"];

pub const VERBS_ALL: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A path below an object: `status`, `scale`, `binding`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    /// Sorted.
    pub verbs: &'static [&'static str],
    /// group, version, kind of what is read and written there. All empty: the kind it belongs to.
    pub kind: (&'static str, &'static str, &'static str),
    pub door: Door,
}

/// What is behind the path of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A part of the object itself, with the rules of that part.
    Part(Part),
    /// How many there are of what the object stands for.
    Scale,
    /// An object of another kind, which the server acts on and does not store.
    Action,
    /// Bytes from and to a node, not objects.
    Stream,
    /// Whatever HTTP is sent, with any method and any path below, to what the object stands for.
    Proxy,
}

impl Subresource {
    pub const STATUS: Self = Self {
        name: "status",
        verbs: VERBS_PART,
        kind: ("", "", ""),
        door: Door::Part(Part::Status),
    };
    pub const SCALE: Self = Self {
        name: "scale",
        verbs: VERBS_PART,
        kind: ("autoscaling", "v1", "Scale"),
        door: Door::Scale,
    };

    pub fn is_stream(&self) -> bool {
        matches!(self.door, Door::Stream | Door::Proxy)
    }

    /// What is read and written here, below an object of the kind `names`.
    pub fn kind_below(&self, names: &Names) -> GroupVersionKind {
        match self.kind {
            ("", "", "") => names.gvk(),
            (group, version, kind) => GroupVersionKind::new(group, version, kind),
        }
    }
}

/// Where a write came in: the object itself, or one of its subresources that share its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
    /// Another subresource of the same kind, such as `finalize` or `ephemeralcontainers`.
    Other(&'static str),
}

/// The rules of one built-in kind. Everything here is pure: no I/O, no clock, no look-ups.
pub trait Resource: k8s_openapi::Resource + Clone + Send + Sync + 'static {
    const FACTS: Facts = Facts::of::<Self>();
    const RELAXED: Relaxed = Relaxed::Nothing;

    /// JSON, without `apiVersion` and `kind` checked: see `codec!`.
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;
    fn encode(&self) -> Vec<u8>;
    /// JSON of this version from that of another, `api_version`, that the kind may have been stored
    /// in; `None` if it never was.
    fn convert_stored(
        _api_version: &str,
        _json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        None
    }
    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    fn apply_defaults(&mut self) {}
    /// The halves of an object, for kinds that have them: `spec_and_status!` fills these in.
    fn clear_status(&mut self) {}
    fn keep_status(&mut self, _stored: &Self) {}
    fn keep_spec(&mut self, _stored: &Self) {}
    fn has_same_spec(&self, _stored: &Self) -> bool {
        true
    }

    /// Wipes what a client may not set and fills what the server sets, such as the first status.
    fn prepare_create(&mut self) {
        self.clear_status();
    }
    /// Restores what this part of the object may not change.
    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => self.keep_spec(stored),
            Part::Main | Part::Other(_) => self.keep_status(stored),
        }
    }
    /// Whether `metadata.generation` grows, for kinds that have one.
    fn is_new_generation(&self, stored: &Self) -> bool {
        !self.has_same_spec(stored)
    }
    /// Whether it grows as well for what an update of this kind may not write, and loses.
    fn generation_counts_lost() -> bool {
        false
    }
    /// Why it is none, though it can be read: upstream turns what it reads into a form of its own,
    /// which may fail.
    fn conversion_error(&self) -> Option<String> {
        None
    }
    /// Everything but metadata, which is checked for all kinds alike.
    fn validate(&self, errors: &mut FieldErrors);
    /// In addition to `validate`, on creates.
    fn validate_create(&self, _errors: &mut FieldErrors) {}
    /// In addition to `validate`, on updates of this part.
    fn validate_update(&self, _stored: &Self, _part: Part, _errors: &mut FieldErrors) {}
    /// What every request for a deprecated kind is told.
    fn deprecation() -> Option<&'static str> {
        None
    }
    /// Texts for `Warning` headers on creates.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// The same of what it was before `prepare_create`, which cannot be seen any more.
    fn warnings_before(&self) -> Vec<String> {
        Vec::new()
    }
    /// The same on updates of this part. Whoever writes a status has not written the rest.
    fn update_warnings(&self, _stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status { Vec::new() } else { self.warnings() }
    }
    /// Columns of `get`, the first being the name. Empty means Name and Created At.
    fn columns() -> &'static [Column] {
        &[]
    }
    /// One cell per column; `now` is for ages.
    fn row(&self, _now: Timestamp) -> Vec<Value> {
        Vec::new()
    }
    /// Conditions of the table row, such as Completed.
    fn row_conditions(&self) -> Vec<Value> {
        Vec::new()
    }
    /// Selectable fields besides metadata.name and metadata.namespace. The same names in the same
    /// order for every object of the kind.
    fn fields(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// The names that `fields` gives, plus accepted aliases as `(alias, name)`.
    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[]
    }
    /// Seconds of grace on DELETE, when the kind has any (pods); `requested` is the client's wish.
    fn grace_seconds(&self, _requested: Option<i64>) -> Option<i64> {
        None
    }
    /// autoscaling/v1 Scale of this object, for kinds with the `scale` subresource.
    fn scale(&self) -> Option<Scale> {
        None
    }
    fn set_replicas(&mut self, _replicas: i32) {}
}

/// What the `scale` subresource shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: i32,
    pub status_replicas: i32,
    /// A label selector in text form.
    pub selector: String,
}

/// One served kind with its Rust type erased: one version of a family that is stored in one
/// version, the hub.
///
/// `decode`, `apply_defaults`, `to_hub` and `row` are about the version that is served; all other
/// methods, which are the rules, take objects as `to_hub` gives them.
pub trait Kind: Send + Sync {
    fn names(&self) -> &Names;
    fn scope(&self) -> Scope;
    fn verbs(&self) -> Vec<&'static str>;
    fn subresources(&self) -> Vec<Subresource>;
    /// `/registry/<prefix>/`; empty when objects of the kind are not stored.
    fn registry_prefix(&self) -> String;
    fn storage_version_hash(&self) -> String;
    /// The version that objects are stored in.
    fn storage_version(&self) -> &str {
        &self.names().version
    }
    fn schema(&self) -> SchemaRef;
    /// The name of the schema in OpenAPI documents.
    fn definition(&self) -> String;
    /// The schema as its author wrote it; `None` for built-in kinds, which `definition` names.
    fn written_schema(&self) -> Option<Value> {
        None
    }
    /// Stands for all that OpenAPI says of it, without saying it; `None` for built-in kinds.
    fn description_id(&self) -> Option<[u8; 32]> {
        None
    }
    fn name_rule(&self) -> NameRule;
    fn creates_on_update(&self) -> bool;
    fn updates_unconditionally(&self) -> bool;
    fn has_generation(&self) -> bool;
    fn default_delete(&self) -> DeletePolicy;
    fn returns_deleted(&self) -> bool;
    /// How often a refused update names what is wrong with labels, annotations and owners.
    fn metadata_checks(&self, _part: Part) -> usize {
        1
    }
    /// Whether a refused update names everything else twice.
    fn validates_twice(&self) -> bool {
        false
    }
    /// What is wrong with an update, but for its metadata.
    fn judge_update(
        &self,
        object: &dyn ApiObject,
        old: &dyn ApiObject,
        part: Part,
        errors: &mut FieldErrors,
    ) {
        self.validate(object, errors);
        self.validate_update(object, old, part, errors);
    }
    /// Whether writes to this object may be acknowledged before they are on disk.
    fn is_relaxed(&self, _namespace: &str) -> bool {
        false
    }
    /// Custom resources: merge patch instead of strategic merge, JSON storage, pruning.
    fn is_custom(&self) -> bool {
        false
    }

    /// Whether it keeps what it compiled of a definition, and could compile again.
    fn is_compiled(&self) -> bool {
        false
    }
    /// Drops what it compiled and nobody used since the last time.
    fn sweep(&self) {}

    /// Whether objects can be written as protobuf.
    fn has_protobuf(&self) -> bool {
        !self.is_custom()
    }

    /// What JSON has of an object of which nothing was said; `None` for custom resources, where that
    /// is nothing.
    fn zero(&self) -> Option<Value> {
        None
    }

    fn decode(&self, bytes: &[u8]) -> Result<Box<dyn ApiObject>, serde_json::Error>;
    /// The same, with what the bytes say beside the object.
    fn decode_reporting(
        &self,
        bytes: &[u8],
    ) -> Result<(Box<dyn ApiObject>, FieldReport), serde_json::Error> {
        let object = self.decode(bytes)?;
        let mut report = self.schema().validate_fields(bytes);
        report.fatal_error = report.fatal_error.or_else(|| self.conversion_error(object.as_ref()));
        if !report.has_loose_quantities || self.is_custom() {
            return Ok((object, report));
        }
        let mut tree = serde_json::from_slice(bytes)?;
        self.schema().write_quantities(&mut tree);
        Ok((self.decode(tree.to_string().as_bytes())?, report))
    }
    /// Why what was decoded is no object all the same.
    fn conversion_error(&self, _object: &dyn ApiObject) -> Option<String> {
        None
    }
    /// JSON of this version from that of another built-in one; `None` if the kind was never stored
    /// in it.
    fn convert_stored(
        &self,
        _api_version: &str,
        _json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        None
    }
    /// JSON of any version of the kind, whether it is served or not, as the schema of that version
    /// has it.
    fn decode_any(
        &self,
        bytes: &[u8],
        _absent: Absent,
    ) -> Result<Box<dyn ApiObject>, serde_json::Error> {
        self.decode(bytes)
    }
    /// What is stored, as the schema of its own version has it; `None` if it is so. That of a custom
    /// resource may have changed after the object was stored.
    fn complete_stored(&self, _stored: &Stored) -> Option<Box<dyn ApiObject>> {
        None
    }
    /// The same as this version reads it, where versions differ in name alone; `None` if it is as it
    /// is stored, but for its apiVersion.
    fn read_stored(&self, _stored: &Stored) -> Option<Box<dyn ApiObject>> {
        None
    }
    fn apply_defaults(&self, object: &mut dyn ApiObject);
    /// What objects are stored as and rules are for, where that is not this kind: another built-in
    /// version of it.
    fn hub(&self) -> Option<Arc<dyn Kind>> {
        None
    }
    fn to_hub(&self, object: Box<dyn ApiObject>) -> Box<dyn ApiObject> {
        object
    }
    /// The object in this version; `None` if that is what the hub is.
    fn served_from(&self, _hub: &dyn ApiObject) -> Option<Box<dyn ApiObject>> {
        None
    }
    fn prepare_create(&self, object: &mut dyn ApiObject);
    fn prepare_update(&self, object: &mut dyn ApiObject, stored: &dyn ApiObject, part: Part);
    fn is_new_generation(&self, object: &dyn ApiObject, stored: &dyn ApiObject) -> bool;
    /// Whether that is asked also of the object as it came.
    fn generation_counts_lost(&self) -> bool {
        false
    }
    fn validate(&self, object: &dyn ApiObject, errors: &mut FieldErrors);
    /// In addition to `validate`, on creates.
    fn validate_create(&self, _object: &dyn ApiObject, _errors: &mut FieldErrors) {}
    fn validate_update(
        &self,
        object: &dyn ApiObject,
        stored: &dyn ApiObject,
        part: Part,
        errors: &mut FieldErrors,
    );
    /// The text of a `Warning` header for every request of a deprecated kind.
    fn deprecation(&self) -> Option<String> {
        None
    }
    fn warnings(&self, object: &dyn ApiObject) -> Vec<String>;
    /// The same of what it was before `prepare_create`, which cannot be seen any more.
    fn warnings_before(&self, _object: &dyn ApiObject) -> Vec<String> {
        Vec::new()
    }
    /// The same on updates of this part.
    fn update_warnings(
        &self,
        object: &dyn ApiObject,
        _stored: &dyn ApiObject,
        part: Part,
    ) -> Vec<String> {
        if part == Part::Status { Vec::new() } else { self.warnings(object) }
    }
    fn columns(&self) -> Vec<Column>;
    fn row(&self, object: &dyn ApiObject, now: Timestamp) -> Vec<Value>;
    fn row_conditions(&self, object: &dyn ApiObject) -> Vec<Value>;
    fn fields(&self, object: &dyn ApiObject) -> Vec<(Cow<'static, str>, String)>;
    fn field_names(&self) -> Vec<(Cow<'static, str>, Cow<'static, str>)>;
    /// Whether `fields` gives any.
    fn has_fields(&self) -> bool {
        !self.field_names().is_empty()
    }
    fn grace_seconds(&self, object: &dyn ApiObject, requested: Option<i64>) -> Option<i64>;
    fn scale(&self, object: &dyn ApiObject) -> Option<Scale>;
    fn set_replicas(&self, object: &mut dyn ApiObject, replicas: i32);
}

/// A built-in kind: `Resource` with its type erased. `Hub` is what it is stored as, if it is served
/// in another version.
pub struct Typed<T, Hub = T> {
    names: Names,
    schema: fn(&'static str) -> SchemaRef,
    _kind: PhantomData<fn(Hub) -> T>,
}

impl<T: Version<Hub>, Hub: Resource> Typed<T, Hub> {
    /// `schema` finds the schema of a definition by name.
    pub fn new(schema: fn(&'static str) -> SchemaRef) -> Self {
        let facts = T::FACTS;
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let names = Names {
            group: facts.group.to_owned(),
            version: facts.version.to_owned(),
            kind: facts.kind.to_owned(),
            list_kind: format!("{}List", facts.kind),
            plural: facts.plural.to_owned(),
            singular: facts.singular.to_owned(),
            short_names: owned(facts.short_names),
            categories: owned(facts.categories),
        };
        Self { names, schema, _kind: PhantomData }
    }
}

impl<T: Resource> Typed<T> {
    /// The same, where objects are stored as another version.
    pub fn version_of<Hub: Resource>(schema: fn(&'static str) -> SchemaRef) -> Typed<T, Hub>
    where
        T: Version<Hub>,
    {
        Typed::new(schema)
    }
}

impl<T: Resource> ApiObject for T {
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }

    fn encode(&self) -> Vec<u8> {
        Resource::encode(self)
    }

    fn clone_box(&self) -> Box<dyn ApiObject> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn of<T: Resource>(object: &dyn ApiObject) -> &T {
    object.downcast_ref().expect("a kind is only given objects that it decoded")
}

fn of_mut<T: Resource>(object: &mut dyn ApiObject) -> &mut T {
    object.downcast_mut().expect("a kind is only given objects that it decoded")
}

/// What an object that was decoded as `T` is in the hub.
fn as_hub<T: Version<Hub>, Hub: Resource>(object: &dyn ApiObject) -> Cow<'_, Hub> {
    match object.downcast_ref::<Hub>() {
        Some(hub) => Cow::Borrowed(hub),
        None => Cow::Owned(Version::<Hub>::into_hub(of::<T>(object).clone())),
    }
}

impl<T: Version<Hub>, Hub: Resource> Kind for Typed<T, Hub> {
    fn names(&self) -> &Names {
        &self.names
    }

    fn scope(&self) -> Scope {
        Hub::FACTS.scope
    }

    fn verbs(&self) -> Vec<&'static str> {
        T::FACTS.verbs.to_vec()
    }

    fn subresources(&self) -> Vec<Subresource> {
        T::FACTS.subresources.to_vec()
    }

    fn registry_prefix(&self) -> String {
        Hub::FACTS.registry_prefix.to_owned()
    }

    fn storage_version_hash(&self) -> String {
        T::FACTS.storage_version_hash.to_owned()
    }

    fn schema(&self) -> SchemaRef {
        (self.schema)(T::FACTS.definition)
    }

    fn definition(&self) -> String {
        T::FACTS.definition.to_owned()
    }

    fn name_rule(&self) -> NameRule {
        Hub::FACTS.name_rule
    }

    fn creates_on_update(&self) -> bool {
        Hub::FACTS.creates_on_update
    }

    fn updates_unconditionally(&self) -> bool {
        Hub::FACTS.updates_unconditionally
    }

    fn has_generation(&self) -> bool {
        Hub::FACTS.has_generation
    }

    fn metadata_checks(&self, part: Part) -> usize {
        let (main, status) = T::FACTS.metadata_checks;
        if part == Part::Status { status } else { main }
    }

    fn validates_twice(&self) -> bool {
        T::FACTS.validates_twice
    }

    fn judge_update(
        &self,
        object: &dyn ApiObject,
        old: &dyn ApiObject,
        part: Part,
        errors: &mut FieldErrors,
    ) {
        if T::FACTS.judges_changes_first {
            self.validate_update(object, old, part, errors);
            self.validate(object, errors);
        } else {
            self.validate(object, errors);
            self.validate_update(object, old, part, errors);
        }
    }

    fn default_delete(&self) -> DeletePolicy {
        Hub::FACTS.default_delete
    }

    fn returns_deleted(&self) -> bool {
        Hub::FACTS.returns_deleted
    }

    fn is_relaxed(&self, namespace: &str) -> bool {
        match Hub::RELAXED {
            Relaxed::Nothing => false,
            Relaxed::InNamespace(only) => only == namespace,
            Relaxed::Everything => true,
        }
    }

    fn zero(&self) -> Option<Value> {
        crate::codec::zero(T::FACTS.definition)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Box<dyn ApiObject>, serde_json::Error> {
        Ok(Box::new(T::decode(bytes)?))
    }

    fn convert_stored(
        &self,
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        T::convert_stored(api_version, json)
    }

    fn conversion_error(&self, object: &dyn ApiObject) -> Option<String> {
        of::<T>(object).conversion_error()
    }

    fn apply_defaults(&self, object: &mut dyn ApiObject) {
        of_mut::<T>(object).apply_defaults();
    }

    fn hub(&self) -> Option<Arc<dyn Kind>> {
        (!<T as Version<Hub>>::IS_HUB)
            .then(|| Arc::new(Typed::<Hub>::new(self.schema)) as Arc<dyn Kind>)
    }

    fn to_hub(&self, object: Box<dyn ApiObject>) -> Box<dyn ApiObject> {
        if <T as Version<Hub>>::IS_HUB {
            return object;
        }
        let object: Box<dyn Any> = object;
        let object = object.downcast::<T>();
        Box::new(Version::<Hub>::into_hub(
            *object.expect("a kind is only given objects that it decoded"),
        ))
    }

    fn served_from(&self, hub: &dyn ApiObject) -> Option<Box<dyn ApiObject>> {
        (!<T as Version<Hub>>::IS_HUB)
            .then(|| Box::new(<T as Version<Hub>>::from_hub(of(hub))) as Box<dyn ApiObject>)
    }

    fn prepare_create(&self, object: &mut dyn ApiObject) {
        of_mut::<Hub>(object).prepare_create();
    }

    fn prepare_update(&self, object: &mut dyn ApiObject, stored: &dyn ApiObject, part: Part) {
        of_mut::<Hub>(object).prepare_update(of(stored), part);
    }

    fn is_new_generation(&self, object: &dyn ApiObject, stored: &dyn ApiObject) -> bool {
        of::<Hub>(object).is_new_generation(of(stored))
    }

    fn generation_counts_lost(&self) -> bool {
        Hub::generation_counts_lost()
    }

    fn validate(&self, object: &dyn ApiObject, errors: &mut FieldErrors) {
        <T as Version<Hub>>::validate_hub(of(object), errors);
    }

    fn validate_create(&self, object: &dyn ApiObject, errors: &mut FieldErrors) {
        <T as Version<Hub>>::validate_hub_create(of(object), errors);
    }

    fn validate_update(
        &self,
        object: &dyn ApiObject,
        stored: &dyn ApiObject,
        part: Part,
        errors: &mut FieldErrors,
    ) {
        <T as Version<Hub>>::validate_hub_update(of(object), of(stored), part, errors);
    }

    fn deprecation(&self) -> Option<String> {
        T::deprecation().map(str::to_owned)
    }

    fn warnings(&self, object: &dyn ApiObject) -> Vec<String> {
        of::<Hub>(object).warnings()
    }

    fn warnings_before(&self, object: &dyn ApiObject) -> Vec<String> {
        of::<Hub>(object).warnings_before()
    }

    fn update_warnings(
        &self,
        object: &dyn ApiObject,
        stored: &dyn ApiObject,
        part: Part,
    ) -> Vec<String> {
        of::<Hub>(object).update_warnings(of(stored), part)
    }

    /// All versions look alike.
    fn columns(&self) -> Vec<Column> {
        Hub::columns().to_vec()
    }

    fn row(&self, object: &dyn ApiObject, now: Timestamp) -> Vec<Value> {
        as_hub::<T, Hub>(object).row(now)
    }

    fn row_conditions(&self, object: &dyn ApiObject) -> Vec<Value> {
        as_hub::<T, Hub>(object).row_conditions()
    }

    fn fields(&self, object: &dyn ApiObject) -> Vec<(Cow<'static, str>, String)> {
        let fields = of::<Hub>(object).fields();
        fields.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect()
    }

    fn field_names(&self) -> Vec<(Cow<'static, str>, Cow<'static, str>)> {
        let names = T::field_names().iter();
        names.map(|(alias, name)| (Cow::Borrowed(*alias), Cow::Borrowed(*name))).collect()
    }

    fn grace_seconds(&self, object: &dyn ApiObject, requested: Option<i64>) -> Option<i64> {
        of::<Hub>(object).grace_seconds(requested)
    }

    fn scale(&self, object: &dyn ApiObject) -> Option<Scale> {
        of::<Hub>(object).scale()
    }

    fn set_replicas(&self, object: &mut dyn ApiObject, replicas: i32) {
        of_mut::<Hub>(object).set_replicas(replicas);
    }
}
