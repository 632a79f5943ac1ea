//! What was found: bounded in number, all of it counted.

use serde::Serialize;

/// What is said about what was judged, and how.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Findings {
    pub(super) objects_checked: usize,
    pub(super) objects_refused: usize,
    pub(super) writes_checked: usize,
    pub(super) writes_refused: usize,
    /// Mutating policies change instead.
    pub(super) changed: usize,
    pub(super) findings: Vec<Finding>,
    /// Findings that are not among them.
    pub(super) left_out: usize,
    /// What could not be known, and what was taken instead.
    pub(super) notes: Vec<String>,
    #[serde(skip)]
    limit: usize,
}

/// One rule, about one object or write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
    /// Missing for what is there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) write: Option<Write>,
    pub(super) rule: String,
    pub(super) message: String,
    /// Else it would be changed.
    pub(super) is_refused: bool,
}

/// A write of the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Write {
    pub(super) operation: &'static str,
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<String>,
}

/// What a judge says about one object: the rule, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) rule: String,
    pub(super) message: String,
    pub(super) is_refused: bool,
}

impl Findings {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(super) fn n_refused(&self) -> usize {
        self.objects_refused + self.writes_refused
    }

    /// Said once.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    pub(super) fn add(
        &mut self,
        (kind, namespace, name): (&str, &str, &str),
        write: Option<&Write>,
        verdicts: Vec<Verdict>,
    ) {
        let is_refused = verdicts.iter().any(|it| it.is_refused);
        let (checked, refused) = match write {
            None => (&mut self.objects_checked, &mut self.objects_refused),
            Some(_) => (&mut self.writes_checked, &mut self.writes_refused),
        };
        *checked += 1;
        *refused += usize::from(is_refused);
        self.changed += usize::from(!is_refused && !verdicts.is_empty());
        for Verdict { rule, message, is_refused } in verdicts {
            if self.findings.len() >= self.limit {
                self.left_out += 1;
                continue;
            }
            self.findings.push(Finding {
                namespace: namespace.to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                write: write.cloned(),
                rule,
                message,
                is_refused,
            });
        }
    }
}
