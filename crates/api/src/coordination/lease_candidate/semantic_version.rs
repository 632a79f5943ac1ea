//! Versions of three numbers, perhaps with what comes before a release (semver.org, 2.0.0).

use std::cmp::Ordering;

/// What is built of it takes no part in the order, and is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SemanticVersion {
    numbers: [u64; 3],
    before: Vec<Identifier>,
}

/// Numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl SemanticVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (text, build) = text.split_once('+').map_or((text, None), |(a, b)| (a, Some(b)));
        let (numbers, before) = text.split_once('-').map_or((text, None), |(a, b)| (a, Some(b)));
        if !build.is_none_or(|it| it.split('.').all(is_identifier)) {
            return None;
        }
        let numbers: Option<Vec<u64>> = numbers.split('.').map(number).collect();
        let before = before.map_or(Some(Vec::new()), |it| it.split('.').map(identifier).collect());
        Some(Self { numbers: numbers?.try_into().ok()?, before: before? })
    }
}

/// Digits that do not start with a zero that means nothing.
fn number(text: &str) -> Option<u64> {
    let is_plain = text == "0" || !text.starts_with('0');
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    (is_plain && is_number).then(|| text.parse().ok()).flatten()
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

fn identifier(text: &str) -> Option<Identifier> {
    if !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) {
        return number(text).map(Identifier::Number);
    }
    is_identifier(text).then(|| Identifier::Text(text.to_owned()))
}

impl PartialOrd for SemanticVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SemanticVersion {
    /// What comes before a release is less than the release.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_numbers = self.numbers.cmp(&other.numbers);
        by_numbers.then_with(|| match (self.before.is_empty(), other.before.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.before.cmp(&other.before),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SemanticVersion;

    #[test]
    fn versions_are_ordered_as_the_standard_says() {
        let sorted = [
            "0.0.0",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.2.0",
            "1.10.0",
        ];
        let parsed: Vec<_> = sorted.iter().map(|it| SemanticVersion::parse(it).unwrap()).collect();
        assert!(parsed.is_sorted_by(|a, b| a < b), "{parsed:?}");
        assert_eq!(SemanticVersion::parse("1.0.0+a"), SemanticVersion::parse("1.0.0+b.c"));
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-01"] {
            assert_eq!(SemanticVersion::parse(text), None, "{text}");
        }
        for text in ["1.2.3+", "1.2.3-a..b", "1.2.-3", "99999999999999999999.0.0", "1.2.3-é"] {
            assert_eq!(SemanticVersion::parse(text), None, "{text}");
        }
    }
}
