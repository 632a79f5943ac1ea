//! Label and field selectors: parsed once, matched often.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
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

impl Labels {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let _ = text;
        todo!("apimachinery")
    }

    /// `None` matches nothing, an empty selector everything.
    pub fn from_selector(selector: Option<&LabelSelector>) -> Result<Self, Error> {
        let _ = selector;
        todo!("apimachinery")
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
        let _ = labels;
        todo!("apimachinery")
    }
}

/// The text form that `Labels::parse` reads.
impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = f;
        todo!("apimachinery")
    }
}

/// `metadata.name=x,status.phase!=Running`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// (field, value, is_equal)
    pub terms: Vec<(String, String, bool)>,
}

impl Fields {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let _ = text;
        todo!("apimachinery")
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// `get` gives the value of a field; a field it does not know counts as empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms
            .iter()
            .all(|(field, value, is_equal)| (get(field).unwrap_or("") == value) == *is_equal)
    }

    /// The value that `field` is required to equal, if there is one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|(name, _, is_equal)| name == field && *is_equal)
            .map(|(_, value, _)| value.as_str())
    }
}
