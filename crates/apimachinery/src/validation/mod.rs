//! Checks that many kinds share: names, label keys and values, ports, object metadata.
//! Each `is_…` function returns the problems as upstream words them; empty means valid.

mod metadata;
#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::field::{FieldErrors, Path};

pub(crate) use metadata::ANNOTATIONS_SIZE_MAX;
pub use metadata::{
    is_name, validate_annotations, validate_field_manager, validate_metadata,
    validate_metadata_again, validate_metadata_at, validate_metadata_update,
};

const LABEL_LENGTH_MAX: usize = 63;
const SUBDOMAIN_LENGTH_MAX: usize = 253;

/// An RFC 1123 label.
pub fn is_dns_label(text: &str) -> Vec<String> {
    let mut problems = too_long(text, LABEL_LENGTH_MAX);
    if !is_label(text) && problems.is_empty() && is_dns_subdomain(text).is_empty() {
        problems.push("must not contain dots".to_owned());
    } else if !is_label(text) {
        problems.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
             regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// A DNS label that starts with a letter, as names of Services are.
pub fn is_dns1035_label(text: &str) -> Vec<String> {
    let mut problems = too_long(text, LABEL_LENGTH_MAX);
    if !is_label(text) || !text.starts_with(|it: char| it.is_ascii_lowercase()) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
             an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
             'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// An RFC 1123 subdomain.
pub fn is_dns_subdomain(text: &str) -> Vec<String> {
    let mut problems = too_long(text, SUBDOMAIN_LENGTH_MAX);
    problems.extend(subdomain_problem(text));
    problems
}

fn subdomain_problem(text: &str) -> Option<String> {
    let is_wrong = !text.split('.').all(is_label);
    is_wrong.then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
         for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned()
    })
}

/// A subdomain whose first label may be `*`.
pub fn is_wildcard_dns_subdomain(text: &str) -> Vec<String> {
    let mut problems = too_long(text, SUBDOMAIN_LENGTH_MAX);
    if !text.strip_prefix("*.").is_some_and(|it| it.split('.').all(is_label)) {
        problems.push(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
             which must consist of lower case alphanumeric characters, '-' or '.' and end with an \
             alphanumeric character (e.g. '*.example.com', regex used for validation is \
             '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    problems
}

pub fn is_path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|it| text.contains(**it))
        .map(|it| format!("may not contain '{it}'"))
        .collect()
}

/// IANA service name, as port names are.
pub fn is_port_name(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 15);
    let is_allowed = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    if text.is_empty() || !text.bytes().all(is_allowed) {
        problems.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|it| it.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

pub fn is_port_number(port: i64) -> Vec<String> {
    if (1..=65_535).contains(&port) {
        return Vec::new();
    }
    vec!["must be between 1 and 65535, inclusive".to_owned()]
}

/// `prefix/name` as label and annotation keys, finalizers and taints are.
pub fn is_qualified_name(text: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and \
        end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
        validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {RULE} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let too_long = too_many_bytes(prefix, SUBDOMAIN_LENGTH_MAX).into_iter();
            let of_prefix = too_long.chain(subdomain_problem(prefix));
            problems.extend(of_prefix.map(|it| format!("prefix part {it}")));
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(
        too_many_bytes(name, LABEL_LENGTH_MAX).into_iter().map(|it| format!("name part {it}")),
    );
    if !is_bare_name(name) {
        problems.push(format!("name part {RULE}"));
    }
    problems
}

pub fn is_label_value(text: &str) -> Vec<String> {
    let mut problems = too_many_bytes(text, LABEL_LENGTH_MAX);
    if !text.is_empty() && !is_bare_name(text) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
             '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  \
             or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// Keys of ConfigMaps and Secrets.
pub fn is_config_key(text: &str) -> Vec<String> {
    let mut problems = too_long(text, SUBDOMAIN_LENGTH_MAX);
    if text.is_empty() || !text.bytes().all(is_name_byte) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
             'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

pub fn is_env_var_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["must be non-empty".to_owned()];
    }
    if text.bytes().all(|it| (b' '..=b'~').contains(&it) && it != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='"
            .to_owned(),
    ]
}

/// A valid IPv4 or IPv6 address.
pub fn is_ip(text: &str) -> Vec<String> {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}

/// `10.0.0.0/8`, `2001:db8::/64`.
pub fn is_cidr(text: &str) -> Vec<String> {
    let is_valid = text.split_once('/').is_some_and(|(address, bits)| {
        let bits = bits.bytes().all(|it| it.is_ascii_digit()).then(|| bits.parse::<u8>().ok());
        match (address.parse::<std::net::IpAddr>(), bits.flatten()) {
            (Ok(address), Some(bits)) => bits <= if address.is_ipv4() { 32 } else { 128 },
            _ => false,
        }
    });
    if is_valid {
        return Vec::new();
    }
    vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()]
}

/// `example.com/jobs/mine`: a domain, then a path as HTTP has them.
pub fn validate_domain_prefixed_path(text: &str, path: &Path, errors: &mut FieldErrors) {
    if text.is_empty() {
        return errors.required(path, "");
    }
    let (domain, rest) = text.split_once('/').unwrap_or_default();
    if domain.is_empty() || rest.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return errors.invalid(path, text, detail);
    }
    for problem in is_dns_subdomain(domain) {
        errors.invalid(path, domain, &problem);
    }
    let is_allowed = |it: u8| it.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&it);
    if !rest.bytes().all(is_allowed) {
        let detail =
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.invalid(path, rest, detail);
    }
}

pub fn validate_label_selector(selector: &LabelSelector, path: &Path, errors: &mut FieldErrors) {
    validate_selector(selector, is_label_value, path, errors);
}

/// The same, where values that could be no label's may stay: they were stored before they were
/// checked.
pub fn validate_older_label_selector(
    selector: &LabelSelector,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate_selector(selector, |_| Vec::new(), path, errors);
}

fn validate_selector(
    selector: &LabelSelector,
    value_problems: fn(&str) -> Vec<String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(labels) = &selector.match_labels {
        validate_labels(labels, &path.child("matchLabels"), errors);
    }
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let values = expression.values.as_deref().unwrap_or_default();
        match expression.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.invalid(&path.child("operator"), other, "not a valid selector operator");
            }
        }
        for problem in is_qualified_name(&expression.key) {
            errors.invalid(&path.child("key"), expression.key.as_str(), &problem);
        }
        for (index, value) in values.iter().enumerate() {
            for problem in value_problems(value) {
                errors.invalid(&path.child("values").index(index), value.as_str(), &problem);
            }
        }
    }
}

pub fn validate_labels(
    labels: &std::collections::BTreeMap<String, String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (key, value) in labels {
        for problem in is_qualified_name(key) {
            errors.invalid(path, key.as_str(), &problem);
        }
        for problem in is_label_value(value) {
            errors.invalid(path, value.as_str(), &problem);
        }
    }
}

/// Of DNS names.
fn too_long(text: &str, max: usize) -> Vec<String> {
    let is_too_long = text.len() > max;
    is_too_long.then(|| format!("must be no more than {max} characters")).into_iter().collect()
}

/// Of labels: the same in words of another age.
fn too_many_bytes(text: &str, max: usize) -> Vec<String> {
    let is_too_long = text.len() > max;
    is_too_long.then(|| format!("must be no more than {max} bytes")).into_iter().collect()
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_label(text: &str) -> bool {
    let is_alphanumeric = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            is_alphanumeric(*first)
                && is_alphanumeric(*last)
                && bytes.iter().all(|it| is_alphanumeric(*it) || *it == b'-')
        }
        _ => false,
    }
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_bare_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|it| is_name_byte(*it))
        }
        _ => false,
    }
}

fn is_name_byte(it: u8) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.')
}
