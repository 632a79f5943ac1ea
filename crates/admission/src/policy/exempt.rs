//! What policies never judge (upstream, `kubeapiserver/admission/exclusion`).

use crate::attributes::Attributes;
use crate::matching::is_configuration;

/// They only tell something.
const REVIEWS: &[(&str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

pub(crate) fn is_exempt(request: &Attributes<'_>) -> bool {
    let names = request.kind.names();
    is_configuration(request) || REVIEWS.contains(&(names.group.as_str(), names.plural.as_str()))
}
