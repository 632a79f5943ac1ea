//! What many objects have in common (the keys of labels, names of nodes, phases, all that a
//! Deployment's pods ask for): one copy of each.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer};

/// Values that nobody has any more are looked for when there are this many.
const SWEEP_MIN: usize = 4_096;

/// A text of which there is one copy, however many have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interned(Arc<str>);

static TEXTS: LazyLock<Table<str>> = LazyLock::new(Table::default);

/// One copy of each of many equal values.
pub(crate) struct Table<T: ?Sized>(Mutex<Values<T>>);

struct Values<T: ?Sized> {
    known: HashSet<Arc<T>>,
    /// When there are so many, those that only the table has are dropped: it never has more than
    /// about twice what is used.
    sweep_at: usize,
}

impl<T: ?Sized> Default for Table<T> {
    fn default() -> Self {
        Self(Mutex::new(Values { known: HashSet::new(), sweep_at: SWEEP_MIN }))
    }
}

impl<T: ?Sized + Eq + Hash> Table<T> {
    /// The copy that there is, or the first one.
    pub(crate) fn one<V: Borrow<T> + Into<Arc<T>>>(&self, value: V) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = values.known.get(value.borrow()) {
            return known.clone();
        }
        if values.known.len() >= values.sweep_at {
            values.known.retain(|it| Arc::strong_count(it) > 1);
            values.sweep_at = SWEEP_MIN.max(values.known.len() * 2);
        }
        let new: Arc<T> = value.into();
        values.known.insert(new.clone());
        new
    }
}

impl Interned {
    pub fn new(text: &str) -> Self {
        Self(TEXTS.one(text))
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

/// Names and values, sorted by name: a map that is made once and read often. A `BTreeMap` takes
/// more than 500 bytes for one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pairs(Box<[(Interned, Interned)]>);

impl Pairs {
    fn sorted(mut pairs: Vec<(Interned, Interned)>) -> Self {
        pairs.reverse();
        pairs.sort_by(|(one, _), (two, _)| one.cmp(two));
        pairs.dedup_by(|(one, _), (two, _)| one == two);
        Self(pairs.into())
    }

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
        Self::sorted(pairs.map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Of a JSON object whose values are texts.
impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Pairs, A::Error> {
                let mut pairs: Vec<(Interned, Interned)> = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs::sorted(pairs))
            }
        }

        deserializer.deserialize_map(Visitor)
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

    use super::{Interned, Pairs, SWEEP_MIN, Table};

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
        let table = Table::<str>::default();
        let kept: Vec<_> = (0..5).map(|n| table.one(format!("kept-{n}"))).collect();
        for n in 0..SWEEP_MIN * 3 {
            table.one(format!("gone-{n}"));
        }
        assert!(table.0.lock().unwrap().known.len() <= SWEEP_MIN);
        for (n, text) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(text, &table.one(format!("kept-{n}"))));
        }
    }

    #[test]
    fn pairs_are_a_map() {
        let pairs = Pairs::from([("b", "2"), ("a", "1"), ("b", "3")]);
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
        assert_eq!((pairs.get("b"), pairs.get("c")), (Some("3"), None));
        assert!(Pairs::default().is_empty() && Pairs::default().get("a").is_none());
        let read: Pairs = serde_json::from_str(r#"{"b":"3","a":"1"}"#).unwrap();
        assert_eq!(read, pairs);
    }
}
