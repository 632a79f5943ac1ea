//! Where variables come from.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Program;
use crate::error::Error;
use crate::value::{Key, Map, MapView, Text, Value};

/// Values of variables, by name.
pub trait Activation<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>>;
}

/// A few variables.
#[derive(Debug, Clone, Default)]
pub struct Bindings<'a> {
    values: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Bindings<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.values.push((name, value));
        self
    }
}

impl<'a> Activation<'a> for Bindings<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>> {
        let found = self.values.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }
}

/// Named expressions that are evaluated when they are first asked for, and at most once. They see
/// the base variables and, under the name of the whole, each other.
///
/// `Lazy::new("variables", &base, &[("n", &program)], budget)`, then `lazy.bind()`, gives an
/// activation where `variables.n` is the value of the program.
pub struct Lazy<'a> {
    name: &'a str,
    base: &'a (dyn Activation<'a> + Sync),
    entries: Vec<Entry<'a>>,
    budget: u64,
    spent: AtomicU64,
    handle: Handle<'a>,
}

struct Entry<'a> {
    name: &'a str,
    program: &'a Program,
    /// Being evaluated: whoever asks again asks in a circle.
    is_busy: std::sync::atomic::AtomicBool,
    value: OnceLock<Result<Value<'a>, Error>>,
}

/// Leads from a borrowed map to the whole, which lives as long as its values.
struct Handle<'a>(OnceLock<&'a Lazy<'a>>);

impl<'a> Lazy<'a> {
    /// All entries together may cost `budget`.
    pub fn new(
        name: &'a str,
        base: &'a (dyn Activation<'a> + Sync),
        entries: &[(&'a str, &'a Program)],
        budget: u64,
    ) -> Self {
        let entries = entries.iter().map(|(name, program)| Entry {
            name,
            program,
            is_busy: std::sync::atomic::AtomicBool::new(false),
            value: OnceLock::new(),
        });
        Self {
            name,
            base,
            entries: entries.collect(),
            budget,
            spent: AtomicU64::new(0),
            handle: Handle(OnceLock::new()),
        }
    }

    /// The activation with these variables.
    pub fn bind(&'a self) -> &'a Self {
        self.handle.0.get_or_init(|| self)
    }

    /// What the entries that were evaluated cost.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    fn get(&'a self, name: &str) -> Result<Option<Value<'a>>, Error> {
        let Some(entry) = self.entries.iter().find(|it| it.name == name) else { return Ok(None) };
        if let Some(known) = entry.value.get() {
            return known.clone().map(Some);
        }
        if entry.is_busy.swap(true, Ordering::Relaxed) {
            return Err(Error::refused(format!("{}.{name} depends on itself", self.name)));
        }
        let left = self.budget.saturating_sub(self.spent());
        let evaluated = entry.program.evaluate(self, left);
        self.spent.fetch_add(evaluated.cost, Ordering::Relaxed);
        entry.value.get_or_init(|| evaluated.result).clone().map(Some)
    }
}

impl<'a> Activation<'a> for Lazy<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>> {
        if name != self.name {
            return self.base.resolve(name);
        }
        let whole: &'a Lazy<'a> = self.handle.0.get()?;
        Some(Value::Map(Map::Foreign(&whole.handle)))
    }
}

impl fmt::Debug for Handle<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Lazy")
    }
}

impl MapView for Handle<'_> {
    fn get(&self, key: &Key<'_>) -> Result<Option<Value<'_>>, Error> {
        match (self.0.get(), key) {
            (Some(whole), Key::String(name)) => whole.get(name),
            _ => Ok(None),
        }
    }

    fn has(&self, key: &Key<'_>) -> Result<bool, Error> {
        let entries = self.0.get().map_or(&[][..], |whole| &whole.entries);
        Ok(matches!(key, Key::String(name) if entries.iter().any(|it| *it.name == **name)))
    }

    fn keys(&self) -> Vec<Key<'_>> {
        let entries = self.0.get().map_or(&[][..], |whole| &whole.entries);
        entries.iter().map(|it| Key::String(Text::Borrowed(it.name))).collect()
    }
}
