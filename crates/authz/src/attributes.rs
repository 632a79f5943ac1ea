//! What is asked for, as authorizers see it.

/// One request. Either a resource request or a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: String,
    /// Resource requests have these; `""` is the core group.
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// Non-resource requests have only this.
    pub path: String,
    pub is_resource: bool,
    /// The `field=value` terms of a list's or watch's field selector: the Node authorizer lets a
    /// node list only what a selector narrows to it.
    pub fields: Vec<(String, String)>,
}

impl Attributes {
    /// A request for a path that is no resource.
    pub fn path(verb: impl Into<String>, path: impl Into<String>) -> Self {
        Self { verb: verb.into(), path: path.into(), ..Self::default() }
    }

    /// A namespace is within itself: whoever has rights there has them on it.
    #[must_use]
    pub fn within_itself(mut self) -> Self {
        let is_namespace = self.group.is_empty() && self.resource == "namespaces";
        if is_namespace && self.namespace.is_empty() {
            self.namespace.clone_from(&self.name);
        }
        self
    }

    /// A request for the resource `resource` or `resource/subresource` of a group.
    pub fn resource(verb: &str, group: &str, resource: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            is_resource: true,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn within(mut self, namespace: &str, name: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        name.clone_into(&mut self.name);
        self
    }

    /// `pods/status`, or `pods`.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    pub(crate) fn is_selected_by(&self, field: &str, value: &str) -> bool {
        self.fields.iter().any(|(name, it)| name == field && it == value)
    }
}
