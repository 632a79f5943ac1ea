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
        };
        self.0.iter().find(matches).map(|it| it.reason.as_str())
    }
}
