//! Names of drivers, pools, devices, attributes, and of what they are shared by.

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain};

use crate::check;

/// Of the name of an attribute or a capacity, after its domain.
const ID_BYTES_MAX: usize = 32;
const DOMAIN_BYTES_MAX: usize = 63;
const POOL_BYTES_MAX: usize = 253;
/// Of a whole name of an attribute or a capacity, as it is shown in a path.
pub(super) const QUALIFIED_BYTES_MAX: usize = DOMAIN_BYTES_MAX + 1 + ID_BYTES_MAX;

/// Names of devices, requests and counters.
pub(super) fn validate_label(name: &str, path: &Path, errors: &mut FieldErrors) {
    check::format(name, &is_dns_label(name), path, errors);
}

pub(super) fn validate_driver(name: &str, path: &Path, errors: &mut FieldErrors) {
    check::csi_driver_name(name, path, errors);
}

/// Subdomains between slashes.
pub(super) fn validate_pool(name: &str, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > POOL_BYTES_MAX {
        errors.too_long(path, POOL_BYTES_MAX);
    }
    for part in name.split('/') {
        check::format(part, &is_dns_subdomain(part), path, errors);
    }
}

/// `model`, `driver.example.com/model`. More slashes are let through, as upstream does.
pub(super) fn validate_qualified(name: &str, path: &Path, errors: &mut FieldErrors) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [id] => validate_identifier(id, path, errors),
        [domain, id] => {
            match domain {
                "" => errors.invalid(path, "", "the domain must not be empty"),
                _ => validate_driver(domain, path, errors),
            }
            match id {
                "" => errors.invalid(path, "", "the name must not be empty"),
                _ => validate_identifier(id, path, errors),
            }
        }
        _ => {}
    }
}

/// The same, with a domain.
pub(super) fn validate_fully_qualified(name: &str, path: &Path, errors: &mut FieldErrors) {
    validate_qualified(name, path, errors);
    if !name.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(path, name, why);
    }
}

fn validate_identifier(id: &str, path: &Path, errors: &mut FieldErrors) {
    if id.len() > ID_BYTES_MAX {
        errors.too_long(path, ID_BYTES_MAX);
    }
    let is_first = |it: u8| it.is_ascii_alphabetic() || it == b'_';
    let is_next = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    if !id.bytes().next().is_some_and(is_first) || !id.bytes().all(is_next) {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' \
                   (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.invalid(path, id, why);
    }
}

/// What tells shares of one device from each other.
pub(super) fn validate_share_id(id: &str, path: &Path, errors: &mut FieldErrors) {
    if let Err(why) = parse_uuid(id) {
        errors.invalid(path, id, &format!("error validating uid: {why}"));
    } else if id.len() != 36 || id.bytes().any(|it| it.is_ascii_uppercase()) {
        let why = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        errors.invalid(path, id, why);
    }
}

/// In any of the forms that Go's package takes: bare, with dashes, in braces, as a URN.
fn parse_uuid(text: &str) -> Result<(), String> {
    let malformed = || Err("invalid UUID format".to_owned());
    let bare = match text.len() {
        36 => text,
        45 => match text.get(..9) {
            Some(prefix) if prefix.eq_ignore_ascii_case("urn:uuid:") => &text[9..],
            prefix => return Err(format!("invalid urn prefix: {:?}", prefix.unwrap_or_default())),
        },
        38 => match text.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
            Some(inside) => inside,
            None => return Err("invalid bracketed UUID format".to_owned()),
        },
        32 if text.bytes().all(|it| it.is_ascii_hexdigit()) => return Ok(()),
        32 => return malformed(),
        length => return Err(format!("invalid UUID length: {length}")),
    };
    let is_well_formed = bare.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    if is_well_formed { Ok(()) } else { malformed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(validate: fn(&str, &Path, &mut FieldErrors), name: &str) -> Vec<String> {
        let mut errors = FieldErrors::new();
        validate(name, &Path::new("n"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn attributes_are_identifiers_in_a_domain() {
        for name in ["model", "a.example.com/Model_2", "_x"] {
            assert!(problems(validate_qualified, name).is_empty(), "{name}");
        }
        assert_eq!(
            problems(validate_qualified, "/"),
            [
                "n: Invalid value: \"\": the domain must not be empty",
                "n: Invalid value: \"\": the name must not be empty",
            ]
        );
        assert_eq!(
            problems(validate_qualified, &"x".repeat(33)),
            ["n: Too long: may not be more than 32 bytes"]
        );
        assert!(problems(validate_qualified, "1a")[0].contains("a valid C identifier must start"));
        assert_eq!(
            problems(validate_fully_qualified, "model"),
            [
                "n: Invalid value: \"model\": a fully qualified name must be a domain and a name separated by a slash"
            ]
        );
    }

    #[test]
    fn pools_are_subdomains_between_slashes() {
        assert!(problems(validate_pool, "a/b.c").is_empty());
        assert_eq!(problems(validate_pool, ""), ["n: Required value"]);
        assert!(problems(validate_pool, "a//b")[0].contains("a lowercase RFC 1123 subdomain"));
    }

    #[test]
    fn shares_have_plain_uuids() {
        let plain = "01234567-89ab-cdef-0123-456789abcdef";
        assert!(problems(validate_share_id, plain).is_empty());
        for other in [plain.to_uppercase(), plain.replace('-', ""), format!("{{{plain}}}")] {
            let found = problems(validate_share_id, &other);
            assert!(found[0].contains("uid must be in RFC 4122 normalized form"), "{found:?}");
        }
        assert_eq!(
            problems(validate_share_id, "x"),
            ["n: Invalid value: \"x\": error validating uid: invalid UUID length: 1"]
        );
        let broken = plain.replace('-', "x");
        assert!(problems(validate_share_id, &broken)[0].ends_with("invalid UUID format"));
    }
}
