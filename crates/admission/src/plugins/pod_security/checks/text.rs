//! How violations are told.

use std::collections::BTreeSet;

/// One check that a pod does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// Always shown.
    pub(super) reason: &'static str,
    /// Shown where one pod is spoken of.
    pub(super) detail: String,
}

/// `"a", "b"`; quotes inside stay as they are.
pub(super) fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(|it| format!("\"{it}\"")).collect();
    items.join(", ")
}

pub(super) fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// `containers "a", "b"`
pub(super) fn containers(names: &[&str]) -> String {
    let containers = plural(names.len(), "container", "containers");
    format!("{containers} {}", quoted(names.iter().copied()))
}

/// Who has set something that they may not: the pod for all its containers, or some of them.
#[derive(Default)]
pub(super) struct Setters<'a> {
    pub(super) is_pod: bool,
    pub(super) containers: Vec<&'a str>,
}

impl Setters<'_> {
    pub(super) fn is_empty(&self) -> bool {
        !self.is_pod && self.containers.is_empty()
    }

    /// `pod`, `containers "a", "b"`
    pub(super) fn parts(&self) -> Vec<String> {
        let pod = self.is_pod.then(|| "pod".to_owned());
        let some = (!self.containers.is_empty()).then(|| containers(&self.containers));
        pod.into_iter().chain(some).collect()
    }

    /// `pod and containers "a", "b"`
    pub(super) fn shown(&self) -> String {
        self.parts().join(" and ")
    }
}

/// Values that are told once each, sorted.
pub(super) type Values<'a> = BTreeSet<&'a str>;
