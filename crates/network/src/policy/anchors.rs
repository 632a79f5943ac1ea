//! Finding the selectors that may match some labels without trying all of them: each is kept under
//! one label that whoever matches it must have. Pure.
//!
//! ```text
//! app in (a, b), tier notin (x)    under app=a and under app=b
//! tier notin (x)                   under nothing: always tried
//! ```

use std::collections::{BTreeMap, BTreeSet};

use api::Pairs;
use apimachinery::selector::{Labels, Requirement};

/// Of one scope, such as a namespace.
#[derive(Clone, Debug)]
pub(super) struct Anchors<T> {
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<T>>>,
    others: BTreeSet<T>,
}

impl<T> Default for Anchors<T> {
    fn default() -> Self {
        Self { by_label: BTreeMap::new(), others: BTreeSet::new() }
    }
}

/// The requirement with the fewest values that a label must have one of.
pub(super) fn anchor(selector: &Labels) -> Option<(&str, &[String])> {
    let of = |it: &'_ Requirement| matches!(it, Requirement::In(..));
    let all = selector.requirements.iter().filter(|it| of(it)).filter_map(|it| match it {
        Requirement::In(key, values) => Some((key.as_str(), values.as_slice())),
        _ => None,
    });
    all.min_by_key(|(_, values)| values.len())
}

impl<T: Copy + Ord> Anchors<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }

    pub(super) fn insert(&mut self, selector: &Labels, it: T) {
        match anchor(selector) {
            None => {
                self.others.insert(it);
            }
            Some((key, values)) => {
                let of_key = self.by_label.entry(key.to_owned()).or_default();
                for value in values {
                    of_key.entry(value.clone()).or_default().insert(it);
                }
            }
        }
    }

    pub(super) fn remove(&mut self, selector: &Labels, it: T) {
        let Some((key, values)) = anchor(selector) else {
            self.others.remove(&it);
            return;
        };
        let Some(of_key) = self.by_label.get_mut(key) else { return };
        for value in values {
            if let Some(all) = of_key.get_mut(value) {
                all.remove(&it);
                if all.is_empty() {
                    of_key.remove(value);
                }
            }
        }
        if of_key.is_empty() {
            self.by_label.remove(key);
        }
    }

    /// All that match are among them.
    pub(super) fn candidates(&self, labels: &Pairs) -> impl Iterator<Item = T> {
        let by_label = labels.iter().filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        by_label.flatten().chain(&self.others).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_found_by_a_label_that_it_asks_for() {
        let texts = ["app=a", "app in (a,b),tier notin (x)", "tier notin (x)", "b", "app=c,b=1"];
        let selectors = texts.map(|it| Labels::parse(it).unwrap());
        let mut anchors = Anchors::default();
        for (index, selector) in selectors.iter().enumerate() {
            anchors.insert(selector, index);
        }
        let found = |anchors: &Anchors<usize>, labels: &[(&str, &str)]| {
            let labels: Pairs = labels.iter().copied().collect();
            anchors.candidates(&labels).collect::<BTreeSet<_>>()
        };
        assert_eq!(found(&anchors, &[]), [2, 3].into());
        assert_eq!(found(&anchors, &[("app", "a")]), [0, 1, 2, 3].into());
        assert_eq!(found(&anchors, &[("app", "b"), ("x", "y")]), [1, 2, 3].into());
        for (index, selector) in selectors.iter().enumerate() {
            anchors.remove(selector, index);
        }
        assert!(anchors.is_empty());
    }
}
