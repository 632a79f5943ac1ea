//! Label and field selectors: parsed once, matched often.

mod fields;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

pub use fields::Fields;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The values are in order.
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    GreaterThan(String, i64),
    LessThan(String, i64),
}

/// All requirements must hold; none matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    pub requirements: Vec<Requirement>,
    /// Matches nothing whatever the requirements say (a nil `LabelSelector`).
    pub is_nothing: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// Requirements in one selector. Every one is held against every object, and against every change
/// that is watched.
const TERMS_MAX: usize = 100;

fn too_many(n_terms: usize) -> Error {
    Error(format!("a selector may have at most {TERMS_MAX} requirements, and this has {n_terms}"))
}

/// What `Labels::nothing` is written as: the grammar has no word for it, and the empty text would
/// match everything.
const NOTHING: &str = "!nothing,nothing";

impl Labels {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut requirements = parse::parse(text)?;
        if requirements.len() > TERMS_MAX {
            return Err(too_many(requirements.len()));
        }
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(Self { requirements, is_nothing: false })
    }

    /// `None` matches nothing, an empty selector everything.
    pub fn from_selector(selector: Option<&LabelSelector>) -> Result<Self, Error> {
        let Some(selector) = selector else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::new_in(key, vec![value.clone()])?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            requirements.push(Requirement::from_expression(expression)?);
        }
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(Self { requirements, is_nothing: false })
    }

    pub fn from_map(labels: &BTreeMap<String, String>) -> Self {
        let requirements = labels
            .iter()
            .map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()]))
            .collect();
        Self { requirements, is_nothing: false }
    }

    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), is_nothing: true }
    }

    pub fn is_everything(&self) -> bool {
        !self.is_nothing && self.requirements.is_empty()
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_with(|key| labels.get(key).map(String::as_str))
    }

    /// The same for labels that are not in a map of their own.
    pub fn matches_with<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.is_nothing && self.requirements.iter().all(|it| it.matches(get(it.key())))
    }
}

/// Values are in order, however many there are.
fn is_among(values: &[String], value: &str) -> bool {
    values.binary_search_by(|it| it.as_str().cmp(value)).is_ok()
}

impl Requirement {
    pub fn key(&self) -> &str {
        match self {
            Self::In(key, _)
            | Self::NotIn(key, _)
            | Self::Exists(key)
            | Self::Absent(key)
            | Self::GreaterThan(key, _)
            | Self::LessThan(key, _) => key,
        }
    }

    /// `value` is the object's value of this requirement's key.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|it| it.parse::<i64>().ok());
        match self {
            Self::In(_, values) => value.is_some_and(|it| is_among(values, it)),
            Self::NotIn(_, values) => !value.is_some_and(|it| is_among(values, it)),
            Self::Exists(_) => value.is_some(),
            Self::Absent(_) => value.is_none(),
            Self::GreaterThan(_, bound) => number().is_some_and(|it| it > *bound),
            Self::LessThan(_, bound) => number().is_some_and(|it| it < *bound),
        }
    }

    fn from_expression(expression: &LabelSelectorRequirement) -> Result<Self, Error> {
        let values = expression.values.clone().unwrap_or_default();
        match expression.operator.as_str() {
            "In" => Self::new_in(&expression.key, values),
            "NotIn" => Self::new_not_in(&expression.key, values),
            "Exists" => Self::new_exists(&expression.key, &values),
            "DoesNotExist" => Self::new_absent(&expression.key, &values),
            other => Err(Error(format!("{other:?} is not a valid label selector operator"))),
        }
    }

    pub(crate) fn new_in(key: &str, values: Vec<String>) -> Result<Self, Error> {
        Ok(Self::In(parse::checked_key(key)?, parse::checked_values(key, values)?))
    }

    pub(crate) fn new_not_in(key: &str, values: Vec<String>) -> Result<Self, Error> {
        Ok(Self::NotIn(parse::checked_key(key)?, parse::checked_values(key, values)?))
    }

    fn new_exists(key: &str, values: &[String]) -> Result<Self, Error> {
        parse::validate_no_values(values)?;
        Ok(Self::Exists(parse::checked_key(key)?))
    }

    fn new_absent(key: &str, values: &[String]) -> Result<Self, Error> {
        parse::validate_no_values(values)?;
        Ok(Self::Absent(parse::checked_key(key)?))
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::In(key, values) => match values.as_slice() {
                [only] => write!(f, "{key}={only}"),
                all => write!(f, "{key} in ({})", all.join(",")),
            },
            Self::NotIn(key, values) => match values.as_slice() {
                [only] => write!(f, "{key}!={only}"),
                all => write!(f, "{key} notin ({})", all.join(",")),
            },
            Self::Exists(key) => f.write_str(key),
            Self::Absent(key) => write!(f, "!{key}"),
            Self::GreaterThan(key, bound) => write!(f, "{key}>{bound}"),
            Self::LessThan(key, bound) => write!(f, "{key}<{bound}"),
        }
    }
}

/// The text form that `Labels::parse` reads.
impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_nothing {
            return f.write_str(NOTHING);
        }
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}
