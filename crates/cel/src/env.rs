//! What expressions may use: variables, functions, types and macros. An environment is shared by
//! reference inside, so that a copy with one variable more costs almost nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::check::{self, Checked};
use crate::cost::CallEstimate;
use crate::error::Error;
use crate::estimate::CallShape;
use crate::library;
use crate::syntax::{self, Issues, Macro};
use crate::types::Type;
use crate::value::{NativeMap, Value};

/// What a function does. The arguments start with the target, if it is a member. With arguments of
/// types that it does not take it answers `Error::NoSuchOverload`.
pub type Implementation = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, Error>;

/// What a call costs at run time, from its arguments and its result (`None` if it failed).
pub type RuntimeCost = fn(&[Value<'_>], Option<&Value<'_>>) -> u64;

/// What a call can cost, from sizes. `None` leaves the default of 1.
pub type StaticCost = fn(&CallShape<'_>) -> Option<CallEstimate>;

/// An implementation that was made for arguments that are constants.
pub type Prepared = Arc<dyn for<'a> Fn(&[Value<'a>]) -> Result<Value<'a>, Error> + Send + Sync>;

/// Gets the arguments that are constants; may give an implementation for them (a compiled pattern),
/// or say what is wrong with them.
pub type Prepare = fn(&[Option<&Value<'static>>]) -> Option<Result<Prepared, Error>>;

/// When the run-time cost of an overload applies.
#[derive(Debug, Clone, Copy)]
pub enum CostRule {
    /// One unit.
    Unit,
    /// Always: upstream goes by the function's name.
    Always(RuntimeCost),
    /// If the checker found that it can be only this overload; else one unit. Upstream goes by the
    /// overload's id, which a dynamic call has not.
    Resolved(RuntimeCost),
}

/// One signature of a function.
#[derive(Debug, Clone)]
pub struct Overload {
    pub id: &'static str,
    /// With the target first, if it is a member.
    pub params: Vec<Type>,
    pub result: Type,
    pub is_member: bool,
    pub implementation: Implementation,
    pub cost: CostRule,
    pub estimate: Option<StaticCost>,
    pub prepare: Option<Prepare>,
}

impl Overload {
    /// `f(a, b)`
    pub fn global(
        id: &'static str,
        params: impl Into<Vec<Type>>,
        result: Type,
        implementation: Implementation,
    ) -> Self {
        Self {
            id,
            params: params.into(),
            result,
            is_member: false,
            implementation,
            cost: CostRule::Unit,
            estimate: None,
            prepare: None,
        }
    }

    /// `a.f(b)`
    pub fn member(
        id: &'static str,
        params: impl Into<Vec<Type>>,
        result: Type,
        implementation: Implementation,
    ) -> Self {
        Self { is_member: true, ..Self::global(id, params, result, implementation) }
    }

    /// Its cost at run time, whichever overload of the function is called.
    #[must_use]
    pub fn cost(self, cost: RuntimeCost) -> Self {
        Self { cost: CostRule::Always(cost), ..self }
    }

    /// Its cost at run time if the checker could tell the overload.
    #[must_use]
    pub fn cost_if_resolved(self, cost: RuntimeCost) -> Self {
        Self { cost: CostRule::Resolved(cost), ..self }
    }

    #[must_use]
    pub fn estimate(self, estimate: StaticCost) -> Self {
        Self { estimate: Some(estimate), ..self }
    }

    #[must_use]
    pub fn prepare(self, prepare: Prepare) -> Self {
        Self { prepare: Some(prepare), ..self }
    }
}

/// A function with its overloads. Declaring one name twice adds overloads; one with an id that is
/// there replaces it.
#[derive(Debug, Clone)]
pub struct Function {
    pub name: &'static str,
    pub overloads: Vec<Overload>,
}

impl Function {
    pub fn new(name: &'static str, overloads: impl Into<Vec<Overload>>) -> Self {
        Self { name, overloads: overloads.into() }
    }
}

/// What the checker and the evaluator know of one name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared {
    pub(crate) overloads: Vec<Arc<Overload>>,
}

/// Functions, macros and names of types that belong together.
#[derive(Debug, Clone, Default)]
pub struct Library {
    pub functions: Vec<Function>,
    /// Opaque types that expressions may name: `type(x) == net.IP`.
    pub types: Vec<Type>,
    pub(crate) macros: &'static [Macro],
}

impl Library {
    pub fn new(functions: Vec<Function>) -> Self {
        Self { functions, ..Self::default() }
    }
}

/// Objects with fields: what they are called, what they have, how a literal of one becomes a value.
pub trait TypeProvider: fmt::Debug + Send + Sync {
    fn find_type(&self, name: &str) -> Option<Type>;

    fn find_field(&self, type_name: &str, field: &str) -> Option<Type>;

    /// The value of `Name{field: value}`.
    fn construct<'a>(
        &self,
        type_name: &str,
        fields: Vec<(Arc<str>, Value<'a>)>,
    ) -> Result<Value<'a>, Error> {
        let mut object = NativeMap::object(type_name.into());
        for (name, value) in fields {
            object.insert(crate::value::Key::String(crate::value::Text::Shared(name)), value);
        }
        Ok(object.into())
    }
}

/// A provider without types.
#[derive(Debug)]
struct NoTypes;

impl TypeProvider for NoTypes {
    fn find_type(&self, _name: &str) -> Option<Type> {
        None
    }

    fn find_field(&self, _type_name: &str, _field: &str) -> Option<Type> {
        None
    }
}

/// A variable and those declared before it.
#[derive(Debug)]
struct Variable {
    name: Arc<str>,
    declared: Type,
    before: Option<Arc<Self>>,
}

/// What the checker looks at beyond types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strictness {
    /// Elements of list and map literals must be of one type.
    pub homogeneous_literals: bool,
    /// Durations, timestamps and patterns that are literals must be valid.
    pub checked_literals: bool,
}

impl Strictness {
    /// What Kubernetes asks for.
    pub const FULL: Self = Self { homogeneous_literals: true, checked_literals: true };
    pub const NONE: Self = Self { homogeneous_literals: false, checked_literals: false };
}

/// Variables, functions, types and macros that expressions may use.
#[derive(Debug, Clone)]
pub struct Env {
    variables: Option<Arc<Variable>>,
    functions: Arc<HashMap<Arc<str>, Declared>>,
    types: Arc<HashMap<Arc<str>, Type>>,
    macros: Arc<Vec<Macro>>,
    provider: Arc<dyn TypeProvider>,
    container: Arc<str>,
    strictness: Strictness,
}

impl Env {
    /// The language without extensions.
    pub fn standard() -> Self {
        let bare = Self {
            variables: None,
            functions: Arc::default(),
            types: Arc::default(),
            macros: Arc::default(),
            provider: Arc::new(NoTypes),
            container: "".into(),
            strictness: Strictness::FULL,
        };
        bare.extend(library::standard())
    }

    /// The language with all that this crate has: optional values, strings, lists, sets, folds with
    /// two variables.
    pub fn extended() -> Self {
        [library::optional(), library::strings(), library::lists(), library::sets()]
            .into_iter()
            .fold(Self::standard(), |env, library| env.extend(library))
            .extend(library::two_variable_comprehensions())
    }

    #[must_use]
    pub fn extend(mut self, library: Library) -> Self {
        let functions = Arc::make_mut(&mut self.functions);
        for function in library.functions {
            let declared = functions.entry(function.name.into()).or_default();
            for overload in function.overloads {
                declared.overloads.retain(|it| it.id != overload.id);
                declared.overloads.push(Arc::new(overload));
            }
        }
        if !library.types.is_empty() {
            let types = Arc::make_mut(&mut self.types);
            types.extend(library.types.into_iter().map(|it| (it.runtime_name().into(), it)));
        }
        if !library.macros.is_empty() {
            Arc::make_mut(&mut self.macros).extend_from_slice(library.macros);
        }
        self
    }

    /// With one variable more. Its name may have dots.
    #[must_use]
    pub fn variable(&self, name: &str, declared: Type) -> Self {
        let before = self.variables.clone();
        let variable = Variable { name: name.into(), declared, before };
        Self { variables: Some(Arc::new(variable)), ..self.clone() }
    }

    #[must_use]
    pub fn provider(&self, provider: Arc<dyn TypeProvider>) -> Self {
        Self { provider, ..self.clone() }
    }

    /// Names are looked up in this namespace first.
    #[must_use]
    pub fn container(&self, name: &str) -> Self {
        Self { container: name.into(), ..self.clone() }
    }

    #[must_use]
    pub fn strictness(&self, strictness: Strictness) -> Self {
        Self { strictness, ..self.clone() }
    }

    /// Parses and checks an expression.
    pub fn compile(&self, text: &str) -> Result<Checked, Issues> {
        let parsed = syntax::parse(text, &self.macros)?;
        check::check(parsed, self)
    }

    pub(crate) fn container_name(&self) -> &str {
        &self.container
    }

    pub(crate) fn get_strictness(&self) -> Strictness {
        self.strictness
    }

    pub(crate) fn get_provider(&self) -> &Arc<dyn TypeProvider> {
        &self.provider
    }

    /// The names that `name` can stand for, the most specific first.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(absolute) = name.strip_prefix('.') {
            return vec![absolute.to_owned()];
        }
        let mut names = Vec::new();
        let mut container = &*self.container;
        while !container.is_empty() {
            names.push(format!("{container}.{name}"));
            container = container.rsplit_once('.').map_or("", |(above, _)| above);
        }
        names.push(name.to_owned());
        names
    }

    pub(crate) fn find_variable(&self, name: &str) -> Option<&Type> {
        let mut next = self.variables.as_deref();
        while let Some(variable) = next {
            if &*variable.name == name {
                return Some(&variable.declared);
            }
            next = variable.before.as_deref();
        }
        None
    }

    /// The type that has this name.
    pub(crate) fn find_type(&self, name: &str) -> Option<Type> {
        self.types.get(name).cloned().or_else(|| self.provider.find_type(name))
    }

    pub(crate) fn find_function(&self, name: &str) -> Option<(&Arc<str>, &Declared)> {
        let names = self.candidates(name);
        names.iter().find_map(|name| self.functions.get_key_value(name.as_str()))
    }
}
