//! Which form of an answer the client wants: the clauses of `Accept`, the best first, each held
//! against what the endpoint can answer in (upstream's endpoints/handlers/negotiation).

use api::{openapi, protobuf};
use apimachinery::{ApiError, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;

/// Clauses beyond these are not looked at.
const CLAUSES_MAX: usize = 64;

const META_V1: &str = "meta.k8s.io/v1";
const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Protobuf,
    Yaml,
}

/// What is made of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Nothing: it is sent itself.
    Plain,
    Table,
    /// PartialObjectMetadata.
    Metadata,
    MetadataList,
    /// Aggregated discovery.
    Discovery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) media: Media,
    pub(super) shape: Shape,
    /// Of what is made of the object.
    pub(super) api_version: &'static str,
    pub(super) is_pretty: bool,
}

/// What can be answered in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endpoint {
    /// Objects; custom ones, for instance, have no protobuf of their own.
    Objects { has_protobuf: bool, has_table: bool },
    /// A Status, or a document: as it is.
    Plain,
    /// `/api` and `/apis`, asked for everything at once.
    Discovery,
}

impl Media {
    /// In the order in which `*/*` chooses.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => protobuf::MEDIA_TYPE,
            Self::Yaml => "application/yaml",
        }
    }

    fn is_named(self, (kind, subtype): (&str, &str)) -> bool {
        let (own_kind, own_subtype) = self.name().split_once('/').expect("names have two parts");
        match (kind, subtype) {
            ("*", "*") => true,
            (kind, "*") => kind == own_kind,
            (kind, subtype) => kind == own_kind && subtype == own_subtype,
        }
    }
}

impl Form {
    pub(super) const JSON: Self = Self::plain(Media::Json);

    const fn plain(media: Media) -> Self {
        Self { media, shape: Shape::Plain, api_version: META_V1, is_pretty: false }
    }

    /// Whether what is made of objects is what most ask for.
    pub(super) fn is_latest(self) -> bool {
        self.api_version == META_V1
    }
}

/// The form of what an endpoint answers; JSON when nothing is asked for.
pub(super) fn form(accept: Option<&str>, endpoint: Endpoint) -> Result<Form, ApiError> {
    find(accept, endpoint).ok_or_else(|| not_acceptable(&Media::ALL.map(Media::name).join(", ")))
}

/// Before anything is looked at in detail, the way of a built-in kind asks whether any of its media
/// is wanted at all.
pub(super) fn validate_media(accept: Option<&str>, has_streams: bool) -> Result<(), ApiError> {
    let Some(accept) = accept.filter(|it| !it.is_empty()) else { return Ok(()) };
    let is_wanted = |it: &Clause<'_>| Media::ALL.iter().any(|media| media.is_named(it.media));
    if clauses(accept).iter().any(is_wanted) {
        return Ok(());
    }
    let mut names: Vec<String> = Media::ALL.iter().map(|it| it.name().to_owned()).collect();
    if has_streams {
        names.extend(STREAMS.map(stream_name));
    }
    let names = names.join(", ");
    let what = format!("406: Not Acceptable\n\nAvailable representations: {names}");
    Err(refused(&what).with_details(StatusDetails::default()))
}

const STREAMS: [Media; 2] = [Media::Json, Media::Protobuf];

fn stream_name(media: Media) -> String {
    format!("{};stream=watch", media.name())
}

/// That of an error. Whoever takes nothing that it could be told in gets JSON.
pub(super) fn form_of_error(accept: Option<&str>) -> Form {
    find(accept, Endpoint::Plain).unwrap_or(Form { is_pretty: true, ..Form::JSON })
}

/// A stream has no YAML: it would not end before the stream does.
pub(super) fn validate_stream(form: Form) -> Result<(), ApiError> {
    if form.media != Media::Yaml {
        return Ok(());
    }
    Err(not_acceptable(&STREAMS.map(stream_name).join(", ")))
}

pub(super) fn find(accept: Option<&str>, endpoint: Endpoint) -> Option<Form> {
    let Some(accept) = accept.filter(|it| !it.is_empty()) else {
        return endpoint.answer(Media::Json, &[]);
    };
    let media = |clause: &Clause<'_>| {
        let named = Media::ALL.into_iter().filter(|it| it.is_named(clause.media));
        named.filter_map(|it| endpoint.answer(it, &clause.parameters)).next()
    };
    clauses(accept).iter().find_map(media)
}

fn not_acceptable(accepted: &str) -> ApiError {
    refused(&format!("only the following media types are accepted: {accepted}"))
}

pub(super) fn refused(why: &str) -> ApiError {
    ApiError::new(Reason::NotAcceptable, why)
}

impl Endpoint {
    /// `None`: not in this medium with these parameters.
    fn answer(self, media: Media, parameters: &[(&str, &str)]) -> Option<Form> {
        let mut form = Form::plain(media);
        let mut target: Option<(&str, &str, &str)> = None;
        for &(name, value) in parameters {
            let of = target.unwrap_or_default();
            match name {
                "g" => target = Some((value, of.1, of.2)),
                "v" => target = Some((of.0, value, of.2)),
                "as" => target = Some((of.0, of.1, value)),
                "stream" if !matches!(value, "" | "watch") => return None,
                "stream" if value == "watch" && media == Media::Yaml => return None,
                "sv" if !self.takes_server_version(value) => return None,
                "pretty" => form.is_pretty = value == "1",
                _ => {}
            }
        }
        let Some((group, version, kind)) = target else {
            let is_own = matches!(self, Self::Objects { has_protobuf: false, .. })
                && media == Media::Protobuf;
            return (!is_own && !matches!(self, Self::Discovery)).then_some(form);
        };
        form.shape = match (self, group, kind) {
            (Self::Objects { has_table: true, .. }, "meta.k8s.io", "Table")
                if media != Media::Protobuf =>
            {
                Shape::Table
            }
            (Self::Objects { .. }, "meta.k8s.io", "PartialObjectMetadata") => Shape::Metadata,
            (Self::Objects { .. }, "meta.k8s.io", "PartialObjectMetadataList") => {
                Shape::MetadataList
            }
            (Self::Discovery, "apidiscovery.k8s.io", "APIGroupDiscoveryList") => Shape::Discovery,
            _ => return None,
        };
        form.api_version = match (form.shape, version) {
            (Shape::Discovery, "v2") => "apidiscovery.k8s.io/v2",
            (Shape::Discovery, _) => return None,
            (_, "v1") => META_V1,
            (_, "v1beta1") => META_V1BETA1,
            _ => return None,
        };
        Some(form)
    }

    fn takes_server_version(self, version: &str) -> bool {
        version.is_empty() || (matches!(self, Self::Objects { .. }) && version == "v1")
    }
}

/// One entry of `Accept`.
struct Clause<'a> {
    media: (&'a str, &'a str),
    weight: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Best first. As upstream's, which is no order: a named medium is before `*`, whatever they weigh,
/// if it is put there before.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = Vec::new();
    for clause in accept.split(',').filter_map(clause).take(CLAUSES_MAX) {
        let at = sorted.iter().rposition(|it| !is_better(&clause, it)).map_or(0, |it| it + 1);
        sorted.insert(at, clause);
    }
    sorted
}

fn is_better(one: &Clause<'_>, other: &Clause<'_>) -> bool {
    one.weight > other.weight
        || (one.media.0 != "*" && other.media.0 == "*")
        || (one.media.1 != "*" && other.media.1 == "*")
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';');
    let media = match parts.next()?.trim().split_once('/') {
        Some((_, rest)) if rest.contains('/') => return None,
        Some((kind, subtype)) => (kind.trim(), subtype.trim()),
        None if text.trim().starts_with('*') => ("*", "*"),
        None => return None,
    };
    let mut clause = Clause { media, weight: 1.0, parameters: Vec::new() };
    for (name, value) in parts.filter_map(|it| it.split_once('=')) {
        match name.trim() {
            "q" => clause.weight = value.trim().parse().unwrap_or_default(),
            name if !value.contains('=') => clause.parameters.push((name, value.trim())),
            _ => {}
        }
    }
    Some(clause)
}

/// Whether the first form of an OpenAPI document that the client takes is protobuf; `None` if it
/// takes none.
pub(super) fn is_openapi_protobuf(accept: Option<&str>, names: &[&str]) -> Option<bool> {
    let accept = accept.filter(|it| !it.is_empty()).unwrap_or("*/*");
    clauses(accept).iter().find_map(|it| match it.media {
        ("*" | "application", "*") | ("application", "json") => Some(false),
        (kind, subtype) => {
            let is_it = |name: &&&str| name.split_once('/') == Some((kind, subtype));
            names.iter().find(is_it).map(|_| true)
        }
    })
}

/// Those of version 2.
pub(super) const OPENAPI_V2: &[&str] = &[openapi::V2_PROTOBUF, openapi::V2_PROTOBUF_OLD];
/// Those of version 3.
pub(super) const OPENAPI_V3: &[&str] = &[openapi::V3_PROTOBUF, openapi::V3_PROTOBUF_OLD];

/// Any text for every endpoint, for whoever tries what it does.
pub(crate) fn try_all(accept: &str) {
    let objects = |has_protobuf| Endpoint::Objects { has_protobuf, has_table: true };
    for endpoint in [objects(true), objects(false), Endpoint::Plain, Endpoint::Discovery] {
        let _ = form(Some(accept), endpoint);
    }
    let _ = (form_of_error(Some(accept)), validate_media(Some(accept), true));
    let _ = is_openapi_protobuf(Some(accept), OPENAPI_V2);
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Form, Media, OPENAPI_V2, Shape, find, form, is_openapi_protobuf};

    const OBJECTS: Endpoint = Endpoint::Objects { has_protobuf: true, has_table: true };
    const CUSTOM: Endpoint = Endpoint::Objects { has_protobuf: false, has_table: true };
    const REVIEW: Endpoint = Endpoint::Objects { has_protobuf: true, has_table: false };

    fn render(form: Option<Form>) -> String {
        let Some(form) = form else { return "none".to_owned() };
        let media = match form.media {
            Media::Json => "json",
            Media::Protobuf => "protobuf",
            Media::Yaml => "yaml",
        };
        let version = form.api_version.rsplit('/').next().unwrap_or_default();
        let shape = match form.shape {
            Shape::Plain => String::new(),
            shape => format!(" {shape:?} {version}"),
        };
        format!("{media}{shape}{}", if form.is_pretty { " pretty" } else { "" })
    }

    fn check(endpoint: Endpoint, accept: &str, expected: &str) {
        assert_eq!(render(find(Some(accept), endpoint)), expected, "{accept}");
    }

    const JSON: &str = "application/json";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const TABLE_BETA: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    const METADATA: &str = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

    #[test]
    fn nothing_asked_for_is_json() {
        assert_eq!(render(find(None, OBJECTS)), "json");
        check(OBJECTS, "", "json");
        for any in ["*/*", "*", "application/*", "text/html, */*;q=0.1"] {
            check(OBJECTS, any, "json");
        }
        for none in [" ", "text/html", "text/*", "application", "a/b/c", "json"] {
            check(OBJECTS, none, "none");
        }
    }

    #[test]
    fn the_first_clause_that_can_be_answered_wins() {
        check(OBJECTS, "application/yaml", "yaml");
        check(OBJECTS, &format!("{PROTOBUF},{JSON}"), "protobuf");
        check(OBJECTS, &format!("{JSON}, {PROTOBUF}"), "json");
        check(OBJECTS, &format!("{PROTOBUF};stream=watch"), "protobuf");
        check(OBJECTS, &format!("{PROTOBUF};stream=other,{JSON}"), "json");
        check(OBJECTS, "application/yaml;stream=watch,application/json", "json");
        check(OBJECTS, "application/json;sv=v1", "json");
        check(OBJECTS, "application/json;sv=v2", "none");
        check(OBJECTS, "application/json;pretty=1", "json pretty");
        check(OBJECTS, "application/json;unknown=1", "json");
    }

    #[test]
    fn weights_come_first_and_named_media_before_all_media() {
        check(OBJECTS, &format!("{JSON};q=0.5,{PROTOBUF};q=0.9"), "protobuf");
        check(OBJECTS, &format!("{JSON};q=0.5,{PROTOBUF};q=x"), "json");
        check(OBJECTS, &format!("*/*,{PROTOBUF}"), "protobuf");
        check(OBJECTS, &format!("*/*;q=0.9,{PROTOBUF};q=0.1"), "protobuf");
    }

    #[test]
    fn tables_and_metadata_are_made_of_objects() {
        check(OBJECTS, &format!("{TABLE},{TABLE_BETA},{JSON}"), "json Table v1");
        check(OBJECTS, &format!("{TABLE_BETA},{JSON}"), "json Table v1beta1");
        check(OBJECTS, "application/json;as=Table;v=v9;g=meta.k8s.io", "none");
        check(OBJECTS, "application/yaml;as=Table;v=v1;g=meta.k8s.io", "yaml Table v1");
        check(OBJECTS, "*/*;as=Table;v=v1;g=meta.k8s.io", "json Table v1");
        check(OBJECTS, &format!("{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,{JSON}"), "json");
        check(OBJECTS, &format!("{PROTOBUF};{METADATA},{JSON};{METADATA}"), "protobuf Metadata v1");
        check(OBJECTS, "application/json;as=Pod;v=v1;g=meta.k8s.io", "none");
        check(OBJECTS, "application/json;v=v1", "none");
        check(REVIEW, TABLE, "none");
        check(REVIEW, &format!("{TABLE},{JSON}"), "json");
        check(REVIEW, &format!("{JSON};{METADATA}"), "json Metadata v1");
    }

    #[test]
    fn custom_objects_have_no_protobuf_but_their_metadata_has() {
        check(CUSTOM, &format!("{PROTOBUF},{JSON}"), "json");
        check(CUSTOM, PROTOBUF, "none");
        check(CUSTOM, &format!("{PROTOBUF};{METADATA}"), "protobuf Metadata v1");
        check(CUSTOM, "application/yaml", "yaml");
    }

    #[test]
    fn errors_and_documents_are_what_they_are() {
        check(Endpoint::Plain, PROTOBUF, "protobuf");
        check(Endpoint::Plain, TABLE, "none");
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        check(Endpoint::Discovery, &format!("{JSON},{aggregated}"), "json Discovery v2");
        check(Endpoint::Discovery, &aggregated.replace("v2", "v2beta1"), "none");
        check(Endpoint::Discovery, JSON, "none");
        check(Endpoint::Discovery, "", "none");
    }

    #[test]
    fn a_refusal_names_what_there_is() {
        let refused = form(Some("text/html"), OBJECTS).expect_err("no such medium");
        let expected = "only the following media types are accepted: application/json, \
                        application/yaml, application/vnd.kubernetes.protobuf";
        assert_eq!((refused.code(), refused.message()), (406, expected));
    }

    #[test]
    fn openapi_is_protobuf_for_those_who_ask_for_it_first() {
        let check = |accept: &str, expected: Option<bool>| {
            assert_eq!(is_openapi_protobuf(Some(accept), OPENAPI_V2), expected, "{accept}");
        };
        check("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", Some(true));
        check("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", Some(true));
        check("application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=1, */*", Some(true));
        check(
            "application/json,application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
            Some(false),
        );
        check("application/com.github.proto-openapi.spec.v3.v1.0+protobuf", None);
        check("*/*", Some(false));
        check("", Some(false));
        check("text/html", None);
    }
}
