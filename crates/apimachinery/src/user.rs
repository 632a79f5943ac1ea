//! Who is asking, once that is known.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|it| (*it).to_owned()).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}
