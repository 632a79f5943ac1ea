//! What `iptables-save` says, as far as it concerns us: chains, and the rules of built-in ones. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// One table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) chains: BTreeSet<String>,
    /// All rules, without `-A`, in their order.
    pub(super) rules: Vec<String>,
}

impl Saved {
    /// Whether a chain has a rule that ends with a jump to another one.
    pub(super) fn jumps(&self, from: &str, to: &str) -> bool {
        self.rules_to(from, to).next().is_some()
    }

    pub(super) fn rules_to(&self, from: &str, to: &str) -> impl Iterator<Item = &String> {
        let (from, to) = (format!("{from} "), format!("-j {to}"));
        self.rules.iter().filter(move |it| it.starts_with(&from) && it.ends_with(&to))
    }
}

/// Tables by name.
pub(super) fn parse(text: &str) -> BTreeMap<String, Saved> {
    let mut tables: BTreeMap<String, Saved> = BTreeMap::new();
    let mut table = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            name.trim().clone_into(&mut table);
            tables.entry(table.clone()).or_default();
        } else if let Some(rest) = line.strip_prefix(':') {
            let chain = rest.split_whitespace().next().unwrap_or_default().to_owned();
            tables.entry(table.clone()).or_default().chains.insert(chain);
        } else if let Some(rule) = line.strip_prefix("-A ") {
            tables.entry(table.clone()).or_default().rules.push(rule.trim_end().to_owned());
        }
    }
    tables
}
