//! Types of expressions, and how one fits another: unification with type variables.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression, a parameter or a field. Made by its variants, or by `Type::list` and
/// its like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Dyn,
    /// Of an expression with an issue: fits everything, so that one mistake is told once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Self>),
    Map(Arc<(Self, Self)>),
    Optional(Arc<Self>),
    /// The type of a type; of which one, if that is known.
    Type(Option<Arc<Self>>),
    /// A type of a library, such as a quantity; it has no fields.
    Opaque(Arc<str>),
    /// An object with fields, known to the `TypeProvider` by this name.
    Object(Arc<str>),
    /// A parameter of an overload: one type in all the places where the name stands.
    Param(&'static str),
    /// A type to be found out by the checker; never in declarations.
    Variable(u32),
}

impl Type {
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub fn object(name: &str) -> Self {
        Self::Object(name.into())
    }

    pub fn opaque(name: &str) -> Self {
        Self::Opaque(name.into())
    }

    pub fn type_of(it: Self) -> Self {
        Self::Type(Some(Arc::new(it)))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The type inside an optional, and whether it was one.
    pub(crate) fn unwrap_optional(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    /// The name that values of this type answer to `type(x)`.
    pub fn runtime_name(&self) -> &str {
        match self {
            Self::Dyn | Self::Param(_) | Self::Variable(_) => "dyn",
            Self::Error => "error",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(name) | Self::Object(name) => name,
        }
    }

    fn params(&self) -> Vec<&Self> {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(Some(inner)) => vec![inner],
            Self::Map(pair) => vec![&pair.0, &pair.1],
            _ => Vec::new(),
        }
    }

    /// Whether a value of this type is of one size always.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Double
            | Self::Duration
            | Self::Int
            | Self::Timestamp
            | Self::Uint => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    /// Both of the same form, where objects and opaque types go by name.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => {
                a.is_equivalent(b)
            }
            (Self::Map(a), Self::Map(b)) => a.0.is_equivalent(&b.0) && a.1.is_equivalent(&b.1),
            (Self::Type(_), Self::Type(_)) => true,
            _ => self == other,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => out.write_str("!error!"),
            Self::Null => out.write_str("null"),
            Self::Duration => out.write_str("duration"),
            Self::Timestamp => out.write_str("timestamp"),
            Self::Param(name) => out.write_str(name),
            Self::Variable(n) => write!(out, "_var{n}"),
            Self::Map(pair) => write!(out, "map({}, {})", pair.0, pair.1),
            Self::List(inner) => write!(out, "list({inner})"),
            Self::Optional(inner) => write!(out, "optional_type({inner})"),
            Self::Type(Some(inner)) => write!(out, "type({inner})"),
            other => out.write_str(other.runtime_name()),
        }
    }
}

/// What is known about type variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping {
    known: HashMap<u32, Type>,
    n_variables: u32,
}

impl Mapping {
    pub(crate) fn fresh(&mut self) -> Type {
        self.n_variables += 1;
        Type::Variable(self.n_variables - 1)
    }

    /// The type with parameters replaced by fresh variables, the same for the same name.
    pub(crate) fn instantiate(&mut self, it: &Type, names: &mut Vec<(&'static str, Type)>) -> Type {
        match it {
            Type::Param(name) => {
                if let Some((_, known)) = names.iter().find(|(known, _)| known == name) {
                    return known.clone();
                }
                let fresh = self.fresh();
                names.push((name, fresh.clone()));
                fresh
            }
            other => map_params(other, &mut |inner| self.instantiate(inner, names)),
        }
    }

    /// The type with known variables replaced; unknown ones become `dyn` if that is asked for.
    pub(crate) fn substitute(&self, it: &Type, unknown_to_dyn: bool) -> Type {
        match it {
            Type::Variable(n) => match self.known.get(n) {
                Some(known) => self.substitute(known, unknown_to_dyn),
                None if unknown_to_dyn => Type::Dyn,
                None => it.clone(),
            },
            other => map_params(other, &mut |inner| self.substitute(inner, unknown_to_dyn)),
        }
    }

    /// Whether one fits the other; if so, what that tells about variables is kept.
    pub(crate) fn assign(&mut self, to: &Type, from: &Type) -> bool {
        self.assign_all(std::slice::from_ref(to), std::slice::from_ref(from))
    }

    pub(crate) fn assign_all(&mut self, to: &[Type], from: &[Type]) -> bool {
        let before = self.known.clone();
        let fits = to.len() == from.len() && to.iter().zip(from).all(|(a, b)| self.fits(a, b));
        if !fits {
            self.known = before;
        }
        fits
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Variable(n) = b {
            let (valid, known) = self.can_stand_for(a, *n);
            if valid || known {
                return valid;
            }
        }
        if let Type::Variable(n) = a {
            return self.can_stand_for(b, *n).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            _ => a == b,
        }
    }

    /// Whether variable `n` can be `it`, and whether `n` was known before.
    fn can_stand_for(&mut self, it: &Type, n: u32) -> (bool, bool) {
        if *it == Type::Variable(n) {
            return (true, true);
        }
        if let Some(known) = self.known.get(&n).cloned() {
            if *it == known {
                return (true, true);
            }
            if !self.fits(it, &known) {
                return (false, true);
            }
            let general = most_general(it, &known).clone();
            if !self.occurs(n, &general) {
                self.known.insert(n, general);
            }
            return (true, true);
        }
        if self.occurs(n, it) {
            return (false, false);
        }
        self.known.insert(n, it.clone());
        (true, false)
    }

    fn occurs(&self, n: u32, within: &Type) -> bool {
        match within {
            Type::Variable(other) if *other == n => true,
            Type::Variable(other) => self.known.get(other).is_some_and(|it| self.occurs(n, it)),
            other => other.params().into_iter().any(|it| self.occurs(n, it)),
        }
    }
}

fn map_params(it: &Type, change: &mut dyn FnMut(&Type) -> Type) -> Type {
    match it {
        Type::List(inner) => Type::list(change(inner)),
        Type::Optional(inner) => Type::optional(change(inner)),
        Type::Type(Some(inner)) => Type::type_of(change(inner)),
        Type::Map(pair) => {
            let key = change(&pair.0);
            Type::map(key, change(&pair.1))
        }
        other => other.clone(),
    }
}

fn is_nullable(it: &Type) -> bool {
    matches!(
        it,
        Type::Null
            | Type::Opaque(_)
            | Type::Optional(_)
            | Type::Object(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// The more general of two types that fit each other.
pub(crate) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if is_less_specific(a, b) { a } else { b }
}

fn is_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            is_less_specific(a, b)
        }
        (Type::Map(a), Type::Map(b)) => {
            is_less_specific(&a.0, &b.0) && is_less_specific(&a.1, &b.1)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => a == b,
    }
}
