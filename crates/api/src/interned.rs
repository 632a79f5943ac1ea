//! Texts that many objects have in common (the keys of labels, names of nodes, phases): one copy of each.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer};

/// Texts that nobody has any more are looked for when there are this many.
const SWEEP_MIN: usize = 4_096;

/// A text of which there is one copy, however many have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interned(Arc<str>);

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(|| Mutex::new(Table::new(SWEEP_MIN)));

struct Table {
    texts: HashSet<Arc<str>>,
    /// When there are so many, those that only the table has are dropped: it never has more than about twice what is used.
    sweep_at: usize,
}

impl Table {
    fn new(sweep_at: usize) -> Self {
        Self { texts: HashSet::new(), sweep_at }
    }

    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= self.sweep_at {
            self.texts.retain(|it| Arc::strong_count(it) > 1);
            self.sweep_at = SWEEP_MIN.max(self.texts.len() * 2);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(new.clone());
        new
    }
}

impl Interned {
    pub fn new(text: &str) -> Self {
        Self(TABLE.lock().unwrap_or_else(PoisonError::into_inner).get(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Interned {
    fn default() -> Self {
        Self::new("")
    }
}

impl Deref for Interned {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<T: AsRef<str>> From<T> for Interned {
    fn from(text: T) -> Self {
        Self::new(text.as_ref())
    }
}

impl fmt::Debug for Interned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Interned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = Interned;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Interned, E> {
                Ok(Interned::new(text))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// Names and values, sorted by name: a map that is made once and read often. A `BTreeMap` takes more than 500 bytes for one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(Box<[(Interned, Interned)]>);

impl Pairs {
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(it, _)| it.as_str().cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of two values of one name the last stays.
impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        let pairs = pairs.map(|(name, value)| (Interned::from(name), Interned::from(value)));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.reverse();
        pairs.sort_by(|(one, _), (two, _)| one.cmp(two));
        pairs.dedup_by(|(one, _), (two, _)| one == two);
        Self(pairs.into())
    }
}

impl<M, N: AsRef<str>, V: AsRef<str>> From<M> for Pairs
where
    M: IntoIterator<Item = (N, V)>,
{
    fn from(pairs: M) -> Self {
        pairs.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Interned, Pairs, Table};

    #[test]
    fn equal_texts_are_one() {
        let (one, two) = (Interned::new("node-1"), Interned::from(format!("node-{}", 1)));
        assert!(Arc::ptr_eq(&one.0, &two.0));
        assert_ne!(one, Interned::new("node-2"));
        let read: Vec<Interned> = serde_json::from_str(r#"["node-1","esc\u0061pe"]"#).unwrap();
        assert!(Arc::ptr_eq(&read[0].0, &one.0));
        assert_eq!(&*read[1], "escape");
    }

    #[test]
    fn texts_that_nobody_has_are_dropped() {
        let mut table = Table::new(10);
        let kept: Vec<_> = (0..5).map(|n| table.get(&format!("kept-{n}"))).collect();
        for n in 0..super::SWEEP_MIN * 3 {
            table.get(&format!("gone-{n}"));
        }
        assert!(table.texts.len() <= super::SWEEP_MIN);
        for (n, text) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(text, &table.get(&format!("kept-{n}"))));
        }
    }

    #[test]
    fn pairs_are_a_map() {
        let pairs = Pairs::from([("b", "2"), ("a", "1"), ("b", "3")]);
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
        assert_eq!((pairs.get("b"), pairs.get("c")), (Some("3"), None));
        assert!(Pairs::default().is_empty() && Pairs::default().get("a").is_none());
    }
}
