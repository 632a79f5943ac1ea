//! Where a webhook is called: at a URL, or at a Service. What is wrong with either, in the words
//! that clients know.

use std::collections::BTreeSet;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_subdomain, is_dns1035_label, is_port_number};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::certificates::pem;
use crate::check;

/// Of reviews of any kind: those that we know.
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
const FORM: &str = "; desired format: https://host[/path]";

/// What a URL consists of that a webhook's may or may not have.
struct Url<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

pub(crate) fn validate_url(url: &str, path: &Path, errors: &mut FieldErrors) {
    let parsed = match Url::parse(url) {
        Ok(parsed) => parsed,
        Err(why) => {
            let why = format!("url must be a valid URL: parse {url:?}: {why}{FORM}");
            return errors.required(path, &why);
        }
    };
    if parsed.scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.invalid(path, parsed.scheme, &why);
    }
    if parsed.host.is_empty() {
        errors.invalid(path, parsed.host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = parsed.user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !parsed.fragment.is_empty() {
        errors.invalid(path, parsed.fragment, "fragments are not permitted in the URL");
    }
    if !parsed.query.is_empty() {
        errors.invalid(path, parsed.query, "query parameters are not permitted in the URL");
    }
}

impl<'a> Url<'a> {
    /// Takes and refuses what Go's `net/url` does, with its words.
    fn parse(text: &'a str) -> Result<Self, String> {
        if text.bytes().any(|it| it.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, rest) = split_scheme(rest)?;
        let Some(rest) = rest.strip_prefix("//") else {
            let segment = rest.split('/').next().unwrap_or_default();
            if scheme.is_empty() && segment.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
            // What follows a scheme without slashes is opaque.
            if scheme.is_empty() || rest.starts_with('/') {
                check_escapes(rest)?;
            }
            return Ok(Self { scheme, user: None, host: "", query, fragment });
        };
        let (authority, after) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        check_escapes(after)?;
        check_escapes(fragment)?;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if user.is_some_and(|it| !it.bytes().all(is_of_user)) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        check_host(host)?;
        Ok(Self { scheme, user, host, query, fragment })
    }
}

/// Letters, digits and `+-.` before a colon; nothing if there is none.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn is_of_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (index, _) in text.match_indices('%') {
        let end = text.len().min(index + 3);
        let escape = text.get(index..end).unwrap_or("%");
        let is_valid = escape.len() == 3 && escape.bytes().skip(1).all(|it| it.is_ascii_hexdigit());
        if !is_valid {
            return Err(format!("invalid URL escape {escape:?}"));
        }
    }
    Ok(())
}

/// A name or an address, one of IPv6 in brackets, and perhaps a port.
fn check_host(host: &str) -> Result<(), String> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or("missing ']' in host")?;
            (name, port)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.strip_prefix(':').is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()));
    if !port.is_empty() && !is_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    let is_allowed = |it: &char| {
        !it.is_ascii() || it.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(*it)
    };
    match name.chars().find(|it| !is_allowed(it)) {
        Some(other) => Err(format!("invalid character {:?} in host name", other.to_string())),
        None => check_escapes(name),
    }
}

/// At one of both.
pub(crate) fn validate_place(
    url: Option<&str>,
    service: Option<ServiceTarget<'_>>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    match (url, service) {
        (Some(url), None) => validate_url(url, &path.child("url"), errors),
        (None, Some(target)) => validate_service(&target, &path.child("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

/// What becomes of versions of which we know none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    Refused,
    Tolerated,
}

pub(crate) fn has_known_review_version(versions: &[String]) -> bool {
    versions.iter().any(|it| REVIEW_VERSIONS.contains(&it.as_str()))
}

pub(crate) fn known_review_versions() -> String {
    REVIEW_VERSIONS.join(", ")
}

/// The versions of reviews that a webhook understands; `missing` is said if there are none.
pub(crate) fn validate_review_versions(
    versions: &[String],
    missing: &str,
    unknown: Unknown,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if versions.is_empty() {
        return errors.required(path, missing);
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if seen.insert(version) {
            check::format(version, &is_dns1035_label(version), &path, errors);
        } else {
            errors.invalid(&path, version.as_str(), "duplicate version");
        }
    }
    if unknown == Unknown::Refused && !has_known_review_version(versions) {
        let why = format!("must include at least one of {}", known_review_versions());
        errors.invalid(path, versions.to_vec(), &why);
    }
}

/// What is wrong with authorities, if they are no use.
pub(crate) fn ca_bundle_problem(bundle: &[u8]) -> Option<String> {
    if bundle.is_empty() {
        return None;
    }
    let blocks = std::str::from_utf8(bundle).map(pem::blocks).unwrap_or_default();
    let is_certificate = |it: &&pem::Block| it.label == "CERTIFICATE";
    let is_read = |it: &pem::Block| X509Certificate::from_der(&it.bytes).is_ok();
    if blocks.iter().any(|it| is_certificate(&it) && !it.has_headers && is_read(it)) {
        return None;
    }
    let unread = blocks.iter().find(is_certificate).map(|it| X509Certificate::from_der(&it.bytes));
    let why = match unread {
        Some(Err(err)) => format!("failed to parse certificate: {err}"),
        Some(Ok(_)) => "no valid certificate authority data seen".to_owned(),
        None => "unable to parse bytes as PEM block".to_owned(),
    };
    Some(format!("unable to load root certificates: {why}"))
}

pub(crate) fn validate_ca_bundle(bundle: &[u8], path: &Path, errors: &mut FieldErrors) {
    if let Some(why) = ca_bundle_problem(bundle) {
        errors.invalid(path, STANDARD.encode(bundle), &why);
    }
}

/// A Service, as webhooks refer to it.
pub(crate) struct ServiceTarget<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) url_path: Option<&'a str>,
    pub(crate) port: i32,
}

pub(crate) fn validate_service(target: &ServiceTarget<'_>, path: &Path, errors: &mut FieldErrors) {
    for (field, value) in [("name", target.name), ("namespace", target.namespace)] {
        if value.is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let problems = is_port_number(i64::from(target.port));
    if !problems.is_empty() {
        let why = format!("port is not valid: {}", problems.join(", "));
        errors.invalid(&path.child("port"), target.port, &why);
    }
    if let Some(url_path) = target.url_path {
        validate_url_path(url_path, &path.child("path"), errors);
    }
}

fn validate_url_path(url_path: &str, path: &Path, errors: &mut FieldErrors) {
    if url_path.is_empty() || url_path == "/" {
        return;
    }
    if url_path == "//" {
        return errors.invalid(path, url_path, "segment[0] may not be empty");
    }
    if !url_path.starts_with('/') {
        errors.invalid(path, url_path, "must start with a '/'");
    }
    // Whatever comes first stands where the slash should be.
    let mut rest = url_path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(path, url_path, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in is_dns_subdomain(step) {
            errors.invalid(path, url_path, &format!("segment[{index}]: {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_url(url: &str, expected: &[&str]) {
        let mut errors = FieldErrors::new();
        validate_url(url, &Path::new("url"), &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{url}");
    }

    #[test]
    fn a_url_is_https_with_a_host_and_nothing_that_is_secret_or_varies() {
        for url in ["https://example.com", "https://example.com:8443/a%20b", "https://[::1]/x"] {
            check_url(url, &[]);
        }
        check_url(
            "http://user:pw@example.com/?a=b#c",
            &[
                "url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "url: Invalid value: \"user:pw\": user information is not permitted in the URL",
                "url: Invalid value: \"c\": fragments are not permitted in the URL",
                "url: Invalid value: \"a=b\": query parameters are not permitted in the URL",
            ],
        );
        check_url(
            "",
            &[
                "url: Invalid value: \"\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
            ],
        );
    }

    #[test]
    fn what_is_no_url_says_why() {
        for (url, why) in [
            ("https://exa mple.com", "invalid character \" \" in host name"),
            ("https://example.com:x", "invalid port \":x\" after host"),
            ("https://[::1", "missing ']' in host"),
            ("https://example.com/%zz", "invalid URL escape \"%zz\""),
            (":443", "missing protocol scheme"),
            ("1a:b", "first path segment in URL cannot contain colon"),
            ("https://a\u{7f}b", "net/url: invalid control character in URL"),
        ] {
            let expected = format!(
                "url: Required value: url must be a valid URL: parse {url:?}: {why}; desired format: https://host[/path]"
            );
            check_url(url, &[&expected]);
        }
    }

    #[test]
    fn a_service_has_a_name_a_namespace_a_port_and_a_plain_path() {
        let check = |url_path: &str, port: i32, expected: &[&str]| {
            let target = ServiceTarget { namespace: "", name: "n", url_path: Some(url_path), port };
            let mut errors = FieldErrors::new();
            validate_service(&target, &Path::new("service"), &mut errors);
            let found: Vec<String> = errors.iter().skip(1).map(ToString::to_string).collect();
            assert_eq!(
                errors.iter().next().unwrap().to_string(),
                "service.namespace: Required value"
            );
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}");
            }
        };
        for url_path in ["", "/", "/a", "/a/b.c/"] {
            check(url_path, 443, &[]);
        }
        check("//", 443, &["service.path: Invalid value: \"//\": segment[0] may not be empty"]);
        check(
            "/a//b",
            443,
            &["service.path: Invalid value: \"/a//b\": segment[1] may not be empty"],
        );
        check("ab", 443, &["service.path: Invalid value: \"ab\": must start with a '/'"]);
        check(
            "/A",
            443,
            &["service.path: Invalid value: \"/A\": segment[0]: a lowercase RFC 1123"],
        );
        check(
            "é",
            443,
            &[
                "service.path: Invalid value: \"é\": must start with a '/'",
                "service.path: Invalid value: \"é\": segment[0] may not be empty",
            ],
        );
        check(
            "/a",
            0,
            &[
                "service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ],
        );
    }
}
