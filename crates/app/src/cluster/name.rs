//! What people call a cluster of this machine.

use std::fmt;

use apimachinery::validation::is_dns_label;
use serde::{Deserialize, Serialize};

/// A DNS label, as is the name of its context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Name(String);

const DEFAULT: &str = "xebec";
/// Where the registry is, in place of a data directory.
const RESERVED: &str = "clusters";

impl Name {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let name = Self(text.to_owned());
        let problems = is_dns_label(text).into_iter().chain(is_dns_label(&name.context()));
        if let Some(problem) = problems.into_iter().next() {
            return Err(problem);
        }
        if text == RESERVED {
            return Err(format!("{RESERVED:?} is the place where the list of clusters is kept"));
        }
        Ok(name)
    }

    /// `xebec`, `2`, `3`, ...: for those who give none.
    pub(crate) fn defaults() -> impl Iterator<Item = Self> {
        std::iter::once(Self::default()).chain((2..).map(|it: u32| Self(it.to_string())))
    }

    /// `xebec` or `xebec-NAME`: of the context, and of the data directory where nobody chose one.
    pub(crate) fn context(&self) -> String {
        if self.0 == DEFAULT { DEFAULT.to_owned() } else { format!("{DEFAULT}-{}", self.0) }
    }
}

impl Default for Name {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn a_name_is_a_label_and_so_is_its_context() {
        let check = |text: &str, context: Option<&str>| {
            let parsed = Name::parse(text).ok().map(|it| it.context());
            assert_eq!(parsed.as_deref(), context, "{text}");
        };
        check("xebec", Some("xebec"));
        check("b", Some("xebec-b"));
        check(&"a".repeat(57), Some(&format!("xebec-{}", "a".repeat(57))));
        for wrong in ["", "B", "a_b", "a.b", "-a", "clusters", &"a".repeat(58)] {
            check(wrong, None);
        }
    }
}
