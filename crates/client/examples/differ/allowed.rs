//! Differences that are known and have their reason: `allowed.json`, a list of entries. An entry
//! matches when all that it says is so; what it does not say may be anything.

use serde_json::Value;

use crate::compare::Difference;

#[derive(Default)]
pub(crate) struct Allowed(Vec<Entry>);

struct Entry {
    /// As in `apps/v1 Deployment`, or the kind alone.
    kind: Option<String>,
    /// As `Of` names it.
    of: Option<String>,
    /// Parts of what is shown of the two answers, and of what was changed.
    upstream: Option<String>,
    ours: Option<String>,
    change: Option<String>,
    /// The texts are the same but for values that are objects.
    is_in_objects_alone: bool,
    reason: String,
}

impl Allowed {
    pub(crate) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let entries: Vec<Value> = serde_json::from_str(text)?;
        let entry = |it: &Value| {
            let text = |name: &str| it[name].as_str().map(str::to_owned);
            Entry {
                kind: text("kind"),
                of: text("of"),
                upstream: text("upstream"),
                ours: text("ours"),
                change: text("change"),
                is_in_objects_alone: it["in"] == "objects",
                reason: text("reason").unwrap_or_default(),
            }
        };
        Ok(Self(entries.iter().map(entry).collect()))
    }

    /// Why a difference is there, if it is a known one.
    pub(crate) fn reason(&self, kind: &str, change: &str, difference: &Difference) -> Option<&str> {
        let is_in = |part: &Option<String>, text: &str| {
            part.as_ref().is_none_or(|part| text.contains(part.as_str()))
        };
        let matches = |it: &&Entry| {
            it.kind.as_ref().is_none_or(|it| kind == it || kind.ends_with(&format!(" {it}")))
                && it.of.as_ref().is_none_or(|it| it == difference.of.name())
                && is_in(&it.upstream, &difference.upstream)
                && is_in(&it.ours, &difference.ours)
                && is_in(&it.change, change)
                && (!it.is_in_objects_alone || is_same_but_for_objects(difference))
        };
        self.0.iter().find(matches).map(|it| it.reason.as_str())
    }
}

fn is_same_but_for_objects(difference: &Difference) -> bool {
    let sorted = |text: &str| {
        let text = without_objects(text);
        let mut causes: Vec<String> = text.split("; ").map(str::to_owned).collect();
        causes.sort();
        causes
    };
    sorted(&difference.upstream) == sorted(&difference.ours)
}

/// Without values that are objects, or lists of them.
fn without_objects(text: &str) -> String {
    const BEFORE: &str = "value: ";
    let mut rest = text;
    let mut kept = String::new();
    while let Some(at) = rest.find(BEFORE) {
        let (before, value) = rest.split_at(at + BEFORE.len());
        kept.push_str(before);
        let is_object = value.starts_with('{') || value.starts_with("[{");
        rest = if is_object { &value[end_of_json(value)..] } else { value };
    }
    kept + rest
}

fn end_of_json(text: &str) -> usize {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => text.len(),
    }
}
