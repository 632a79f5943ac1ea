//! Which form of an answer the client wants.

use apimachinery::{ApiError, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Table,
    /// PartialObjectMetadata and its list.
    Metadata,
    /// Aggregated discovery, v2.
    Discovery,
}

/// The first entry of `Accept` that this server can answer; JSON when nothing is asked for.
pub(super) fn form(accept: Option<&str>) -> Result<Form, ApiError> {
    let Some(accept) = accept.filter(|it| !it.trim().is_empty()) else { return Ok(Form::Plain) };
    accept.split(',').find_map(entry).ok_or_else(|| {
        ApiError::new(
            Reason::NotAcceptable,
            "only the following media types are accepted: application/json, application/yaml",
        )
    })
}

fn entry(text: &str) -> Option<Form> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?;
    if !matches!(media, "application/json" | "*/*" | "application/*" | "application/yaml") {
        return None;
    }
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    match (kind, group, version) {
        ("", ..) => Some(Form::Plain),
        ("Table", "meta.k8s.io", "v1") => Some(Form::Table),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
            Some(Form::Metadata)
        }
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Form::Discovery),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, form};

    fn check(accept: &str, expected: Option<Form>) {
        assert_eq!(form(Some(accept)).ok(), expected, "{accept}");
    }

    #[test]
    fn the_first_form_that_is_known_wins() {
        check("", Some(Form::Plain));
        check("application/json", Some(Form::Plain));
        check("application/vnd.kubernetes.protobuf,application/json", Some(Form::Plain));
        check("application/vnd.kubernetes.protobuf", None);
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Some(Form::Table),
        );
        check(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Some(Form::Plain),
        );
        check(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
            Some(Form::Discovery),
        );
    }
}
