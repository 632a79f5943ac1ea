//! Expressions of policies and match conditions: the variables that they see, what they must come
//! to, and what is said of those that do not compile. Used when they are written and when requests
//! are held against them, so that both have the same idea of them.

#[cfg(test)]
mod tests;
pub mod typing;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use apimachinery::FieldErrors;
use apimachinery::cel::environment;
use apimachinery::cel::libraries::{authz, json_patch};
use apimachinery::field::Path;
use cel::{Env, Error, Key, NativeMap, Program, Text, Type, TypeProvider, Value};

/// The type of `variables`.
const VARIABLES: &str = "kubernetes.variables";
const REQUEST: &str = "kubernetes.AdmissionRequest";
const NAMESPACE: &str = "kubernetes.Namespace";
/// What a mutation may make: a whole object or a part of one, and a step of a JSON patch.
pub const OBJECT: &str = "Object";
pub const JSON_PATCH: &str = "JSONPatch";

/// Which variables there are beside those that all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sees {
    pub params: bool,
    pub authorizer: bool,
    /// `Object{…}` and `JSONPatch{…}`.
    pub patches: bool,
}

/// What an expression must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    Anything,
    Bool,
    Text,
    TextOrNull,
    Object,
    JsonPatches,
}

impl Returns {
    fn allows(self, it: &Type) -> bool {
        match self {
            Self::Anything => true,
            Self::Bool => *it == Type::Bool,
            Self::Text => *it == Type::String,
            Self::TextOrNull => matches!(it, Type::String | Type::Null),
            Self::Object => *it == Type::object(OBJECT),
            Self::JsonPatches => *it == Type::list(Type::object(JSON_PATCH)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anything => "any",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::TextOrNull => "one of [string null_type]",
            Self::Object => OBJECT,
            Self::JsonPatches => "list(JSONPatch)",
        }
    }
}

/// Why an expression does not compile, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub detail: String,
    /// Whether whoever wrote it can do something about it.
    pub is_internal: bool,
}

impl Problem {
    /// As an error of the field that has the expression.
    pub fn report(&self, path: &Path, expression: &str, errors: &mut FieldErrors) {
        errors.invalid(path, expression, &self.detail);
    }
}

/// Compiles the expressions of one policy, which see the variables that were declared before.
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    /// Types of `variables`; `None` where there is no such thing.
    variables: Option<Arc<BTreeMap<String, Type>>>,
}

impl Compiler {
    /// For a policy, with `variables`.
    pub fn with_variables() -> Self {
        Self { variables: Some(Arc::default()) }
    }

    pub fn compile(&self, text: &str, sees: Sees, returns: Returns) -> Result<Program, Problem> {
        self.check(text, sees, returns).map(|it| it.0)
    }

    /// Adds `variables.name`, even if its expression does not compile: then it may be anything.
    pub fn declare(&mut self, name: &str, text: &str, sees: Sees) -> Result<Program, Problem> {
        let checked = self.check(text, sees, Returns::Anything);
        let declared = checked.as_ref().map_or(Type::Dyn, |it| declared_type(&it.1));
        let variables = self.variables.get_or_insert_default();
        Arc::make_mut(variables).insert(name.to_owned(), declared);
        checked.map(|it| it.0)
    }

    fn check(&self, text: &str, sees: Sees, returns: Returns) -> Result<(Program, Type), Problem> {
        let invalid = |detail| Problem { detail, is_internal: false };
        let checked = self
            .environment(sees)
            .compile(text)
            .map_err(|issues| invalid(format!("compilation failed: {issues}")))?;
        let output = checked.output_type().clone();
        if !returns.allows(&output) {
            let got = type_name(&output);
            return Err(invalid(format!("must evaluate to {} but got {got}", returns.name())));
        }
        let program = checked.program().map_err(|err| Problem {
            detail: format!("program instantiation failed: {err}"),
            is_internal: true,
        })?;
        Ok((program, output))
    }

    fn environment(&self, sees: Sees) -> Env {
        let mut env = base(sees).clone();
        if self.variables.is_some() {
            env = env.variable("variables", Type::object(VARIABLES));
        }
        let variables = self.variables.clone().unwrap_or_default();
        env.provider(Arc::new(Types { variables, has_patches: sees.patches }))
    }
}

/// The variables that do not differ between policies, once for all.
fn base(sees: Sees) -> &'static Env {
    static ALL: LazyLock<Vec<(Sees, Env)>> = LazyLock::new(|| {
        let all = (0..8).map(|n| Sees {
            params: n & 1 != 0,
            authorizer: n & 2 != 0,
            patches: n & 4 != 0,
        });
        all.map(|sees| (sees, declare_variables(sees))).collect()
    });
    let found = ALL.iter().find(|it| it.0 == sees);
    &found.expect("all combinations are there").1
}

fn declare_variables(sees: Sees) -> Env {
    let mut env = environment()
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("namespaceObject", Type::object(NAMESPACE))
        .variable("request", Type::object(REQUEST));
    if sees.params {
        env = env.variable("params", Type::Dyn);
    }
    if sees.authorizer {
        env = env
            .variable("authorizer", authz::authorizer_type())
            .variable("authorizer.requestResource", authz::resource_check_type());
    }
    if sees.patches { env.extend(json_patch()) } else { env }
}

/// As `cel-go` prints types outside of issues.
fn type_name(it: &Type) -> String {
    match it {
        Type::List(inner) => format!("list({})", type_name(inner)),
        Type::Map(pair) => format!("map({}, {})", type_name(&pair.0), type_name(&pair.1)),
        Type::Optional(inner) => format!("optional_type({})", type_name(inner)),
        other => other.runtime_name().to_owned(),
    }
}

/// What is kept of a variable's type.
fn declared_type(it: &Type) -> Type {
    match it {
        Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Null
        | Type::Duration
        | Type::Timestamp => it.clone(),
        Type::List(inner) => Type::list(declared_type(inner)),
        Type::Map(pair) => Type::map(declared_type(&pair.0), declared_type(&pair.1)),
        _ => Type::Dyn,
    }
}

/// Objects with fields: the request, the namespace, the variables, and what mutations make.
#[derive(Debug)]
struct Types {
    variables: Arc<BTreeMap<String, Type>>,
    has_patches: bool,
}

impl TypeProvider for Types {
    fn find_type(&self, name: &str) -> Option<Type> {
        let is_patch = self.has_patches && (name == JSON_PATCH || is_object(name));
        let is_known = name == VARIABLES || fields(name).is_some() || is_patch;
        is_known.then(|| Type::object(name))
    }

    fn find_field(&self, type_name: &str, field: &str) -> Option<Type> {
        if type_name == VARIABLES {
            return self.variables.get(field).cloned();
        }
        if self.has_patches && is_object(type_name) {
            return Some(Type::Dyn);
        }
        if self.has_patches && type_name == JSON_PATCH {
            return match field {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => None,
            };
        }
        let found = fields(type_name)?.iter().find(|it| it.0 == field);
        found.map(|it| it.1.to_type())
    }

    fn construct<'a>(
        &self,
        type_name: &str,
        fields: Vec<(Arc<str>, Value<'a>)>,
    ) -> Result<Value<'a>, Error> {
        let mut object = NativeMap::object(type_name.into());
        for (name, value) in fields {
            object.insert(Key::String(Text::Shared(name)), value);
        }
        Ok(object.into())
    }
}

/// `Object`, `Object.spec`, `Object.spec.containers`.
fn is_object(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The type of a field, as something that can be written down.
#[derive(Clone, Copy)]
enum Field {
    Text,
    Bool,
    Int,
    Time,
    Any,
    Texts,
    TextMap,
    TextsMap,
    Object(&'static str),
    Objects(&'static str),
}

impl Field {
    fn to_type(self) -> Type {
        match self {
            Self::Text => Type::String,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Time => Type::Timestamp,
            Self::Any => Type::Dyn,
            Self::Texts => Type::list(Type::String),
            Self::TextMap => Type::map(Type::String, Type::String),
            Self::TextsMap => Type::map(Type::String, Type::list(Type::String)),
            Self::Object(name) => Type::object(name),
            Self::Objects(name) => Type::list(Type::object(name)),
        }
    }
}

type Fields = &'static [(&'static str, Field)];

/// Upstream, `apiserver/pkg/admission/plugin/cel/compile.go`.
fn fields(type_name: &str) -> Option<Fields> {
    const KIND: Field = Field::Object("kubernetes.GroupVersionKind");
    const RESOURCE: Field = Field::Object("kubernetes.GroupVersionResource");
    Some(match type_name {
        "kubernetes.GroupVersionKind" => {
            &[("group", Field::Text), ("version", Field::Text), ("kind", Field::Text)]
        }
        "kubernetes.GroupVersionResource" => {
            &[("group", Field::Text), ("version", Field::Text), ("resource", Field::Text)]
        }
        "kubernetes.UserInfo" => &[
            ("username", Field::Text),
            ("uid", Field::Text),
            ("groups", Field::Texts),
            ("extra", Field::TextsMap),
        ],
        REQUEST => &[
            ("kind", KIND),
            ("resource", RESOURCE),
            ("subResource", Field::Text),
            ("requestKind", KIND),
            ("requestResource", RESOURCE),
            ("requestSubResource", Field::Text),
            ("name", Field::Text),
            ("namespace", Field::Text),
            ("operation", Field::Text),
            ("userInfo", Field::Object("kubernetes.UserInfo")),
            ("dryRun", Field::Bool),
            ("options", Field::Any),
        ],
        NAMESPACE => &[
            ("metadata", Field::Object("kubernetes.NamespaceMetadata")),
            ("spec", Field::Object("kubernetes.NamespaceSpec")),
            ("status", Field::Object("kubernetes.NamespaceStatus")),
        ],
        "kubernetes.NamespaceMetadata" => &[
            ("name", Field::Text),
            ("generateName", Field::Text),
            ("namespace", Field::Text),
            ("labels", Field::TextMap),
            ("annotations", Field::TextMap),
            ("UID", Field::Text),
            ("creationTimestamp", Field::Time),
            ("deletionGracePeriodSeconds", Field::Int),
            ("deletionTimestamp", Field::Time),
            ("generation", Field::Int),
            ("resourceVersion", Field::Text),
            ("finalizers", Field::Texts),
        ],
        "kubernetes.NamespaceSpec" => &[("finalizers", Field::Texts)],
        "kubernetes.NamespaceStatus" => &[
            ("conditions", Field::Objects("kubernetes.NamespaceCondition")),
            ("phase", Field::Text),
        ],
        "kubernetes.NamespaceCondition" => &[
            ("status", Field::Text),
            ("type", Field::Text),
            ("lastTransitionTime", Field::Time),
            ("message", Field::Text),
            ("reason", Field::Text),
        ],
        _ => return None,
    })
}
