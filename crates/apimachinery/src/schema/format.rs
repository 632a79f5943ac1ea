//! The string formats that custom resources may ask for. Unknown formats accept everything.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine;

pub(super) fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => crate::validation::is_cidr(text).is_empty(),
        "mac" => is_mac(text),
        "uri" => is_uri(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
        }),
        "hostname" => is_hostname(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "duration" => super::parse_duration(text).is_some(),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "k8s-short-name" => crate::validation::is_dns_label(text).is_empty(),
        "k8s-long-name" => crate::validation::is_dns_subdomain(text).is_empty(),
        _ => true,
    }
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6
        && parts.iter().all(|it| it.len() == 2 && it.bytes().all(|it| it.is_ascii_hexdigit()))
}

/// An absolute URI, or an absolute path.
fn is_uri(text: &str) -> bool {
    if text.contains(|it: char| it.is_whitespace() || it.is_control()) {
        return false;
    }
    let has_scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|it: char| it.is_ascii_alphabetic())
            && scheme.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it))
    });
    has_scheme || text.starts_with('/')
}

fn is_hostname(text: &str) -> bool {
    let is_label = |it: &str| {
        !it.is_empty()
            && it.len() <= 63
            && !it.starts_with('-')
            && !it.ends_with('-')
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
    };
    text.len() <= 255 && text.trim_end_matches('.').split('.').all(is_label)
}

/// Dashes may be left out, as upstream's pattern allows.
fn is_uuid(format: &str, text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|it| *it != b'-').collect();
    let has_version = format.strip_prefix("uuid").is_none_or(|version| {
        version.is_empty() || digits.get(12).is_some_and(|it| version.as_bytes() == [*it])
    });
    digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit) && has_version
}
