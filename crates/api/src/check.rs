//! Checks of single values that many kinds share, with the texts clients know.

use std::net::IpAddr;

use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::addresses;

pub(crate) fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

pub(crate) fn int_or_string(value: &IntOrString) -> Value {
    match value {
        IntOrString::Int(number) => Value::from(*number),
        IntOrString::String(text) => Value::from(text.as_str()),
    }
}

/// One `Invalid` per message, as the format checks return them.
pub(crate) fn format(value: &str, messages: &[String], path: &Path, errors: &mut FieldErrors) {
    for message in messages {
        errors.invalid(path, value, message);
    }
}

pub(crate) fn non_negative(value: impl Into<i64>, path: &Path, errors: &mut FieldErrors) {
    let value = value.into();
    if value < 0 {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

pub(crate) fn in_range(value: i64, min: i64, max: i64, path: &Path, errors: &mut FieldErrors) {
    if !(min..=max).contains(&value) {
        errors.invalid(path, value, &format!("must be between {min} and {max}, inclusive"));
    }
}

/// User and group ids.
pub(crate) fn id(value: Option<i64>, path: &Path, errors: &mut FieldErrors) {
    if let Some(value) = value {
        in_range(value, 0, i64::from(i32::MAX), path, errors);
    }
}

/// Required when empty, otherwise one of a fixed set.
pub(crate) fn one_of(value: &str, supported: &[&str], path: &Path, errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        one_of_if_set(value, supported, path, errors);
    }
}

/// The same, where upstream names them in an order of its own.
pub(crate) fn one_of_listed(
    value: &str,
    supported: &[&str],
    path: &Path,
    errors: &mut FieldErrors,
) {
    if value.is_empty() {
        errors.required(path, "");
    } else if !supported.contains(&value) {
        errors.not_supported_as_listed(path, value, supported);
    }
}

pub(crate) fn one_of_if_set(
    value: &str,
    supported: &[&str],
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !value.is_empty() && !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

/// `value` is what the error shows.
pub(crate) fn immutable(
    is_same: bool,
    value: impl Into<Value>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !is_same {
        errors.invalid(path, value, "field is immutable");
    }
}

pub(crate) fn port_number(port: i32, path: &Path, errors: &mut FieldErrors) {
    for message in validation::is_port_number(i64::from(port)) {
        errors.invalid(path, port, &message);
    }
}

pub(crate) fn port_number_or_name(port: &IntOrString, path: &Path, errors: &mut FieldErrors) {
    match port {
        IntOrString::Int(number) => port_number(*number, path, errors),
        IntOrString::String(name) => format(name, &validation::is_port_name(name), path, errors),
    }
}

/// The name of a CSI driver. Upper case is allowed.
pub(crate) fn csi_driver_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    /// By the CSI specification.
    const BYTES_MAX: usize = 63;
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > BYTES_MAX {
        errors.too_long(path, BYTES_MAX);
    }
    format(name, &validation::is_dns_subdomain(&name.to_lowercase()), path, errors);
}

/// Addresses that traffic can be sent to: not this host, not this link, not nothing.
pub(crate) fn non_special_ip(address: &str, path: &Path, errors: &mut FieldErrors) {
    let Some(ip) = addresses::read_ip(address) else {
        return errors.invalid(path, address, "must be a valid IP address");
    };
    if ip.is_unspecified() {
        errors.invalid(path, address, "may not be unspecified (0.0.0.0 or ::)");
    }
    if ip.is_loopback() {
        errors.invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (is_link_local, is_link_local_multicast) = match ip {
        IpAddr::V4(it) => (it.is_link_local(), it.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(it) => (it.is_unicast_link_local(), it.segments()[0] & 0xff0f == 0xff02),
    };
    if is_link_local {
        errors.invalid(
            path,
            address,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        );
    }
    if is_link_local_multicast {
        errors.invalid(
            path,
            address,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}
