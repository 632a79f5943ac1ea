//! Which objects of a resource a request is about.

use api::{Kind, Meta};
use apimachinery::selector::{Fields, Labels};
use apimachinery::{ApiError, Scope};

/// Fields that objects of every kind have.
const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

fn is_own(field: &str) -> bool {
    field != NAME && field != NAMESPACE
}

#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// `None`: all namespaces, or cluster scope.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub labels: Labels,
    pub fields: Fields,
}

impl Selection {
    /// Reads the selectors of a request; field names must be ones that the kind offers.
    pub fn parse(
        kind: &dyn Kind,
        namespace: Option<&str>,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, ApiError> {
        let labels = Labels::parse(labels.unwrap_or_default())
            .map_err(|err| ApiError::bad_request(format!("unable to parse requirement: {err}")))?;
        let mut fields = Fields::parse(fields.unwrap_or_default())
            .map_err(|err| ApiError::bad_request(err.to_string()))?;
        for (field, _, _) in &mut fields.terms {
            *field = canonical(kind, field)?;
        }
        Ok(Self { namespace: namespace.map(str::to_owned), name: None, labels, fields })
    }

    pub fn is_everything(&self) -> bool {
        self.name.is_none() && self.labels.is_everything() && self.fields.is_everything()
    }

    /// What each object is held against.
    pub fn n_terms(&self) -> usize {
        self.labels.requirements.len() + self.fields.terms.len()
    }

    /// Where the one object is that it can match, if it can match but one.
    pub(crate) fn only_path(&self, kind: &dyn Kind) -> Option<String> {
        let name = self.exact_name()?;
        match kind.scope() {
            Scope::Namespaced => Some(format!("{}/{name}", self.exact_namespace()?)),
            Scope::Cluster => Some(name.to_owned()),
        }
    }

    /// The one name that it can match.
    pub(super) fn exact_name(&self) -> Option<&str> {
        self.name.as_deref().or_else(|| self.fields.exact(NAME))
    }

    /// The one namespace that it can match.
    pub(super) fn exact_namespace(&self) -> Option<&str> {
        self.namespace.as_deref().or_else(|| self.fields.exact(NAMESPACE))
    }

    /// The values that the kind's own fields have to have.
    pub(super) fn exact_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let exact = self.fields.terms.iter().filter(|(_, _, is_equal)| *is_equal);
        let own = exact.filter(|(field, _, _)| is_own(field));
        own.map(|(field, value, _)| (field.as_str(), value.as_str()))
    }

    /// Whether it asks for more than where objects are, which is what another version of them may
    /// answer otherwise.
    pub(crate) fn is_by_content(&self) -> bool {
        !self.labels.is_everything() || self.fields.terms.iter().any(|(field, _, _)| is_own(field))
    }

    /// Without that: everything that is where its objects are.
    pub(crate) fn by_place(&self) -> Self {
        let terms = self.fields.terms.iter().filter(|(field, _, _)| !is_own(field));
        let fields = Fields { terms: terms.cloned().collect() };
        Self { labels: Labels::default(), fields, ..self.clone() }
    }

    pub fn matches(&self, meta: &Meta) -> bool {
        self.namespace.as_ref().is_none_or(|it| *it == meta.key.namespace)
            && self.name.as_ref().is_none_or(|it| *it == meta.key.name)
            && (self.labels.is_everything() || self.labels.matches_with(|key| meta.labels.get(key)))
            && self.fields.matches(|field| field_of(meta, field))
    }
}

pub(super) fn field_of<'a>(meta: &'a Meta, field: &str) -> Option<&'a str> {
    match field {
        NAME => Some(&meta.key.name),
        NAMESPACE => Some(&meta.key.namespace),
        _ => meta.fields.get(field),
    }
}

fn canonical(kind: &dyn Kind, field: &str) -> Result<String, ApiError> {
    if field == NAME || (field == NAMESPACE && kind.scope() == Scope::Namespaced) {
        return Ok(field.to_owned());
    }
    let names = kind.field_names();
    if let Some((_, name)) = names.iter().find(|(alias, _)| *alias == field) {
        return Ok(name.to_string());
    }
    Err(ApiError::bad_request(if names.is_empty() {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {field}")
    }))
}
