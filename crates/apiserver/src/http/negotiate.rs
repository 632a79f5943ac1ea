//! Which form of an answer the client wants.

use api::openapi;
use apimachinery::{ApiError, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// As plain, in protobuf.
    Protobuf,
    Table,
    /// PartialObjectMetadata and its list.
    Metadata,
    /// Aggregated discovery, v2.
    Discovery,
}

/// The first entry of `Accept` that this server can answer; JSON when nothing is asked for.
pub(super) fn form(accept: Option<&str>) -> Result<Form, ApiError> {
    const ACCEPTED: &str =
        "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    entries(accept).next().ok_or_else(|| not_acceptable(ACCEPTED))
}

/// The same for what has no protobuf: custom resources and documents.
pub(super) fn form_of_text(accept: Option<&str>) -> Result<Form, ApiError> {
    let mut entries = entries(accept).filter(|it| *it != Form::Protobuf);
    entries.next().ok_or_else(|| not_acceptable("application/json, application/yaml"))
}

/// Whether the first form of `/openapi/v2` that the client takes is protobuf.
pub(super) fn is_openapi_protobuf(accept: Option<&str>) -> bool {
    let mut known =
        accept.unwrap_or_default().split(',').filter_map(|it| match it.split(';').next()?.trim() {
            openapi::V2_PROTOBUF | openapi::V2_PROTOBUF_OLD => Some(true),
            "application/json" | "application/*" | "*/*" => Some(false),
            _ => None,
        });
    known.next().unwrap_or(false)
}

fn entries(accept: Option<&str>) -> impl Iterator<Item = Form> {
    let accept = accept.filter(|it| !it.trim().is_empty()).unwrap_or("*/*");
    accept.split(',').filter_map(entry)
}

fn not_acceptable(accepted: &str) -> ApiError {
    ApiError::new(
        Reason::NotAcceptable,
        format!("only the following media types are accepted: {accepted}"),
    )
}

fn entry(text: &str) -> Option<Form> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?;
    let is_protobuf = media == api::protobuf::MEDIA_TYPE;
    let is_text =
        matches!(media, "application/json" | "*/*" | "application/*" | "application/yaml");
    if !is_protobuf && !is_text {
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
        ("", ..) if is_protobuf => Some(Form::Protobuf),
        ("", ..) => Some(Form::Plain),
        // The other forms are answered in JSON only, which clients that ask for them accept too.
        _ if is_protobuf => None,
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
    use super::{Form, form, form_of_text, is_openapi_protobuf};

    fn check(accept: &str, expected: Option<Form>) {
        assert_eq!(form(Some(accept)).ok(), expected, "{accept}");
    }

    #[test]
    fn the_first_form_that_is_known_wins() {
        check("", Some(Form::Plain));
        check("application/json", Some(Form::Plain));
        check("application/vnd.kubernetes.protobuf,application/json", Some(Form::Protobuf));
        check("application/json,application/vnd.kubernetes.protobuf", Some(Form::Plain));
        check("application/vnd.kubernetes.protobuf;stream=watch", Some(Form::Protobuf));
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Some(Form::Metadata),
        );
        check("text/html", None);
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

    #[test]
    fn openapi_is_protobuf_for_those_who_ask_for_it_first() {
        let check = |accept: &str, expected: bool| {
            assert_eq!(is_openapi_protobuf(Some(accept)), expected, "{accept}");
        };
        check("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", true);
        check("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", true);
        check("application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=1, */*", true);
        check("application/json,application/com.github.proto-openapi.spec.v2.v1.0+protobuf", false);
        check("application/com.github.proto-openapi.spec.v3.v1.0+protobuf", false);
        check("*/*", false);
        check("", false);
    }

    #[test]
    fn what_has_no_protobuf_is_answered_in_json_or_not_at_all() {
        let both = form_of_text(Some("application/vnd.kubernetes.protobuf,application/json"));
        assert_eq!(both.ok(), Some(Form::Plain));
        assert!(form_of_text(Some("application/vnd.kubernetes.protobuf")).is_err());
    }
}
