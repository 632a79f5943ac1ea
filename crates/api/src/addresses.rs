//! Texts that are IP addresses or ranges of them: which forms are taken, and which are warned of.
//!
//! Fields that are older than the strict rules take any form that is not ambiguous, and keep what
//! they have; newer ones take the canonical form alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// An address in any form that was ever taken: numbers may start with zeros, which are ignored.
pub(crate) fn read_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (before, dotted) = text.rfind(':').map_or(("", text), |at| text.split_at(at + 1));
    let plain: Option<Vec<&str>> = dotted.split('.').map(without_zeros).collect();
    format!("{before}{}", plain?.join(".")).parse().ok()
}

/// `010` is `10`, and `000` is `0`.
fn without_zeros(digits: &str) -> Option<&str> {
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    let rest = digits.trim_start_matches('0');
    is_number.then_some(if rest.is_empty() { "0" } else { rest })
}

/// An address of a field that is older than the strict rules. What was `stored` may stay.
pub(crate) fn validate_older_ip(
    text: &str,
    stored: &[&str],
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !stored.contains(&text) {
        for problem in ip_problems(text) {
            errors.invalid(path, text, problem);
        }
    }
}

fn ip_problems(text: &str) -> Vec<&'static str> {
    match (read_ip(text), text.parse::<IpAddr>()) {
        (None, _) => vec![NO_IP],
        (Some(_), Err(_)) => vec!["must not have leading 0s"],
        (Some(_), Ok(address)) if is_mapped(address) => {
            vec!["must not be an IPv4-mapped IPv6 address"]
        }
        (Some(_), Ok(_)) => Vec::new(),
    }
}

/// What is wrong with an address that must be in its canonical form.
pub(crate) fn canonical_ip_problems(text: &str) -> Vec<String> {
    let problems = ip_problems(text);
    if !problems.is_empty() {
        return problems.into_iter().map(str::to_owned).collect();
    }
    let canonical = read_ip(text).map(|it| it.to_string()).unwrap_or_default();
    if canonical == text {
        return Vec::new();
    }
    vec![format!("must be in canonical form ({canonical:?})")]
}

pub(crate) fn ip_warnings(text: &str, path: &Path) -> Vec<String> {
    let Some(address) = read_ip(text) else { return Vec::new() };
    if !ip_problems(text).is_empty() {
        let better = plain(address);
        return vec![format!(
            "{path}: non-standard IP address {text:?} is invalid: use \"{better}\""
        )];
    }
    let canonical = address.to_string();
    if address.is_ipv4() || canonical == text {
        return Vec::new();
    }
    vec![format!(
        "{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({canonical:?})"
    )]
}

/// An address and how many of its bits are those of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl Range {
    /// In any form that was ever taken.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = read_ip(address)?;
        let bits = without_zeros(bits)?.parse().ok()?;
        (bits <= width(address)).then_some(Self { address, bits })
    }

    fn network(self) -> IpAddr {
        stdx::Cidr::containing(self.address, self.bits).map_or(self.address, |it| it.network())
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        stdx::Cidr::containing(self.address, self.bits).is_some_and(|it| it.contains(address))
    }

    /// Whether all of `other` is in it, and not all of it in `other`.
    pub(crate) fn is_strictly_around(self, other: Self) -> bool {
        self.contains(other.network()) && self.bits < other.bits
    }

    /// The range alone, an IPv4 one that was written as IPv6 as what it is.
    fn canonical(self) -> String {
        let network = self.network();
        match (is_mapped(network), self.bits.checked_sub(96)) {
            (true, Some(bits)) => format!("{}/{bits}", plain(network)),
            _ => format!("{network}/{}", self.bits),
        }
    }
}

/// Whether strict readers take the form, whatever the bits beyond the prefix are.
fn is_strict_form(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        address.parse::<IpAddr>().is_ok() && without_zeros(bits) == Some(bits)
    })
}

/// A range of a field that is older than the strict rules. What was `stored` may stay.
pub(crate) fn validate_older_cidr(
    text: &str,
    stored: &[&str],
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !stored.contains(&text)
        && let Some(problem) = cidr_problem(text)
    {
        errors.invalid(path, text, problem);
    }
}

fn cidr_problem(text: &str) -> Option<&'static str> {
    let Some(range) = Range::read(text) else { return Some(NO_CIDR) };
    if !is_strict_form(text) {
        Some("must not have leading 0s in IP or prefix length")
    } else if is_mapped(range.address) {
        Some("must not have an IPv4-mapped IPv6 address")
    } else if range.address != range.network() {
        Some("must not have bits set beyond the prefix length")
    } else {
        None
    }
}

/// A range that must be in its canonical form.
pub(crate) fn validate_cidr(text: &str, path: &Path, errors: &mut FieldErrors) {
    if let Some(problem) = cidr_problem(text) {
        return errors.invalid(path, text, problem);
    }
    let canonical = Range::read(text).map(Range::canonical).unwrap_or_default();
    if canonical != text {
        errors.invalid(path, text, &format!("must be in canonical form ({canonical:?})"));
    }
}

pub(crate) fn cidr_warnings(text: &str, path: &Path) -> Vec<String> {
    let Some(range) = Range::read(text) else { return Vec::new() };
    let canonical = range.canonical();
    let mut warnings = Vec::new();
    if range.address != range.network() {
        let alone = format!("{}/{}", plain(range.address), width(range.address));
        warnings.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be {canonical:?} or {alone:?}?)"
        ));
    }
    if !is_strict_form(text) || is_mapped(range.address) {
        warnings.push(format!(
            "{path}: non-standard CIDR value {text:?} is invalid: use {canonical:?}"
        ));
    }
    if warnings.is_empty() && range.address.is_ipv6() && canonical != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
    warnings
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(it) if it.to_ipv4_mapped().is_some())
}

/// An IPv4 address that was written as IPv6 as what it is.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => u8::try_from(Ipv4Addr::BITS).unwrap_or(u8::MAX),
        IpAddr::V6(_) => u8::try_from(Ipv6Addr::BITS).unwrap_or(u8::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(check: impl Fn(&Path, &mut FieldErrors)) -> Vec<String> {
        let mut errors = FieldErrors::new();
        check(&Path::new("at"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_address_of_an_older_field_may_be_written_in_any_clear_form() {
        let of = |text: &str| problems(|at, errors| validate_older_ip(text, &[], at, errors));
        for text in ["10.9.8.7", "2001:db8::1", "FE80:0:0:0:0:0:0:0abc"] {
            assert!(of(text).is_empty(), "{text}");
        }
        assert_eq!(
            of("10.0.0.010"),
            ["at: Invalid value: \"10.0.0.010\": must not have leading 0s"]
        );
        assert_eq!(
            of("::ffff:1.2.3.4"),
            ["at: Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 address"]
        );
        for text in ["", "10.0.0", "10.0.0.256", "1::2::3", "fe80::1%eth0", "10.0.0.+1"] {
            assert_eq!(of(text), [format!("at: Invalid value: {text:?}: {NO_IP}")]);
        }
        let kept = problems(|at, errors| {
            validate_older_ip("10.0.0.010", &["10.0.0.010"], at, errors);
        });
        assert!(kept.is_empty());
    }

    #[test]
    fn an_address_of_a_newer_field_is_canonical() {
        assert!(canonical_ip_problems("10.9.8.7").is_empty());
        assert!(canonical_ip_problems("2001:db8::1").is_empty());
        assert_eq!(
            canonical_ip_problems("2001:DB8:0::1"),
            ["must be in canonical form (\"2001:db8::1\")"]
        );
        assert_eq!(canonical_ip_problems("a"), [NO_IP]);
    }

    #[test]
    fn a_range_has_no_bits_beyond_its_prefix() {
        let of = |text: &str| problems(|at, errors| validate_older_cidr(text, &[], at, errors));
        for text in ["10.0.0.0/8", "0.0.0.0/0", "FE80:0abc:0:0:0:0:0:0/64"] {
            assert!(of(text).is_empty(), "{text}");
        }
        for (text, why) in [
            ("10.0.0.0", NO_CIDR),
            ("10.0.0.0/33", NO_CIDR),
            ("10.0.0.0/+8", NO_CIDR),
            ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
            ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
            ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
            ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ] {
            assert_eq!(of(text), [format!("at: Invalid value: {text:?}: {why}")]);
        }
        let strict = |text: &str| problems(|at, errors| validate_cidr(text, at, errors));
        assert!(strict("10.0.0.0/8").is_empty());
        assert_eq!(
            strict("FD00::/64"),
            ["at: Invalid value: \"FD00::/64\": must be in canonical form (\"fd00::/64\")"]
        );
    }

    #[test]
    fn odd_forms_are_warned_of() {
        let at = Path::new("at");
        assert!(ip_warnings("10.0.0.1", &at).is_empty());
        assert_eq!(
            ip_warnings("010.0.0.1", &at),
            ["at: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\""]
        );
        assert_eq!(
            ip_warnings("::ffff:1.2.3.4", &at),
            ["at: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\""]
        );
        assert_eq!(
            ip_warnings("FD00::1", &at),
            ["at: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"]
        );
        assert!(cidr_warnings("10.0.0.0/8", &at).is_empty());
        assert_eq!(
            cidr_warnings("10.0.0.1/8", &at),
            [
                "at: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
            ]
        );
        assert_eq!(
            cidr_warnings("::ffff:10.0.0.0/104", &at),
            ["at: non-standard CIDR value \"::ffff:10.0.0.0/104\" is invalid: use \"10.0.0.0/8\""]
        );
        assert_eq!(
            cidr_warnings("FD00::/64", &at),
            [
                "at: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")"
            ]
        );
    }

    #[test]
    fn a_range_is_around_a_smaller_one_inside_it() {
        let is_around = |outer: &str, inner: &str| {
            Range::read(outer).unwrap().is_strictly_around(Range::read(inner).unwrap())
        };
        assert!(is_around("10.0.0.0/8", "10.1.0.0/16"));
        assert!(!is_around("10.0.0.0/8", "10.0.0.0/8"));
        assert!(!is_around("10.0.0.0/8", "11.0.0.0/16"));
        assert!(!is_around("10.0.0.0/8", "fd00::/64"));
    }
}
