//! Groups of Kubernetes' own domains are not for everybody: a definition in one says who approved
//! it, or that nobody did. Pure.

use apimachinery::{FieldErrors, Path};

use super::{CustomResourceDefinition, CustomResourceDefinitionCondition};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Missing,
    /// Neither an address nor the word `unapproved`.
    Invalid,
    Unapproved,
    Approved,
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn annotation(crd: &CustomResourceDefinition) -> &str {
    let annotations = crd.metadata.annotations.as_ref();
    annotations.and_then(|it| it.get(ANNOTATION)).map_or("", String::as_str)
}

/// `None` for groups that need no approval.
fn approval(crd: &CustomResourceDefinition) -> Option<(Approval, String)> {
    is_protected(&crd.spec.group).then(|| state(crd))
}

fn state(crd: &CustomResourceDefinition) -> (Approval, String) {
    let text = annotation(crd);
    let must = format!("protected groups must have approval annotation {ANNOTATION:?}");
    if text.is_empty() {
        (Approval::Missing, format!("{must}, {SEE}"))
    } else if text.starts_with("unapproved") {
        (Approval::Unapproved, format!("not approved: {text:?}"))
    } else if is_address(text) {
        (Approval::Approved, format!("approved in {text}"))
    } else {
        let either = "with either a URL or a reason starting with \"unapproved\"";
        (Approval::Invalid, format!("{must} {either}, {SEE}"))
    }
}

/// A scheme and a host.
fn is_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
        && !host.is_empty()
        && !text.contains(|it: char| it.is_ascii_control() || it == ' ')
}

/// An update may leave a definition as wrong as it was.
pub(super) fn validate(
    crd: &CustomResourceDefinition,
    stored: Option<&CustomResourceDefinition>,
    errors: &mut FieldErrors,
) {
    let Some((state, why)) = approval(crd) else { return };
    // Of whatever group it was.
    if stored.is_some_and(|it| self::state(it).0 == state) {
        return;
    }
    let path = Path::new("metadata").child("annotations").key(ANNOTATION);
    match state {
        Approval::Missing => errors.required(&path, &why),
        Approval::Invalid => errors.invalid(&path, annotation(crd), &why),
        Approval::Unapproved | Approval::Approved => {}
    }
}

/// What the status says of it.
pub(super) fn condition(
    crd: &CustomResourceDefinition,
) -> Option<CustomResourceDefinitionCondition> {
    let (state, message) = approval(crd)?;
    let (status, reason) = match state {
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Unapproved => ("False", "UnapprovedAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
    };
    Some(CustomResourceDefinitionCondition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        ..CustomResourceDefinitionCondition::default()
    })
}
