//! `variables`: named expressions of a policy, evaluated when they are first asked for, at most once
//! by each group of expressions, with a bound for each and the texts of policies.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use apimachinery::cel::EVALUATION_BUDGET;
use cel::{Activation, Bindings, Error, Key, Map, MapView, Text, Value};

use super::evaluation::Expression;

/// The base variables and `variables`.
pub(super) struct Variables<'a> {
    base: &'a Bindings<'a>,
    entries: Vec<Entry<'a>>,
    /// Since it was last asked for.
    spent: AtomicU64,
    handle: Handle<'a>,
}

struct Entry<'a> {
    name: &'a str,
    expression: &'a Expression,
    value: OnceLock<Result<Value<'a>, Error>>,
}

/// Leads from a borrowed map to the whole, which lives as long as its values.
struct Handle<'a>(OnceLock<&'a Variables<'a>>);

impl<'a> Variables<'a> {
    pub(super) fn new(base: &'a Bindings<'a>, entries: &'a [(String, Expression)]) -> Self {
        let entries = entries.iter();
        let entries =
            entries.map(|(name, expression)| Entry { name, expression, value: OnceLock::new() });
        let (spent, handle) = (AtomicU64::new(0), Handle(OnceLock::new()));
        Self { base, entries: entries.collect(), spent, handle }
    }

    pub(super) fn bind(&'a self) -> &'a Self {
        self.handle.0.get_or_init(|| self)
    }

    /// What variables cost that were evaluated since the last call.
    pub(super) fn take_spent(&self) -> u64 {
        self.spent.swap(0, Ordering::Relaxed)
    }

    /// Those that come later are not seen by the ones before, so that there are no circles.
    fn get(&'a self, name: &str) -> Result<Option<Value<'a>>, Error> {
        let Some(entry) = self.entries.iter().find(|it| it.name == name) else { return Ok(None) };
        if let Some(known) = entry.value.get() {
            return known.clone().map(Some);
        }
        let result = match &entry.expression.program {
            Err(problem) => Err(Error::refused(format!(
                "composited variable {name:?} fails to compile: {}",
                problem.detail
            ))),
            Ok(program) => {
                let evaluated = program.evaluate(self, EVALUATION_BUDGET);
                self.spent.fetch_add(evaluated.cost, Ordering::Relaxed);
                evaluated.result.map_err(|err| {
                    Error::refused(format!("composited variable {name:?} fails to evaluate: {err}"))
                })
            }
        };
        entry.value.get_or_init(|| result).clone().map(Some)
    }
}

impl<'a> Activation<'a> for Variables<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>> {
        if name != "variables" {
            return self.base.resolve(name);
        }
        let whole: &'a Variables<'a> = self.handle.0.get()?;
        Some(Value::Map(Map::Foreign(&whole.handle)))
    }
}

impl fmt::Debug for Handle<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Variables")
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
        Ok(self.keys().contains(key))
    }

    fn keys(&self) -> Vec<Key<'_>> {
        let entries = self.0.get().map_or(&[][..], |whole| &whole.entries);
        entries.iter().map(|it| Key::String(Text::Borrowed(it.name))).collect()
    }
}
