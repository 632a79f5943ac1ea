//! Source text with positions by code point, and the issues found in it, rendered as cel-go does:
//! `ERROR: <input>:1:6: what`, the line after ` | `, and a line of dots with a caret.

use std::fmt;
use std::sync::Arc;

/// More issues than this are counted, not shown.
const ISSUES_MAX: usize = 100;
/// Longer source lines are not shown below an issue.
const SNIPPET_BYTES_MAX: usize = 16_384;

/// A place in the source: the line counts from one, the column from zero, by code point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// Source text with the starts of its lines.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    text: Arc<str>,
    /// Byte offset at which each line starts.
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text: text.into(), lines: std::iter::once(0).chain(starts).collect() }
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.text
    }

    pub(crate) fn position(&self, offset: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= offset).saturating_sub(1);
        let before = self.text.get(self.lines[line]..offset).unwrap_or("");
        let column = before.chars().count();
        Position { line: to_u32(line + 1), column: to_u32(column) }
    }

    fn line(&self, number: u32) -> Option<&str> {
        let index = (number as usize).checked_sub(1)?;
        let start = *self.lines.get(index)?;
        let end = self.lines.get(index + 1).map_or(self.text.len(), |next| next - 1);
        self.text.get(start..end)
    }

    fn render(&self, issue: &Issue, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = issue.position;
        // Nothing has no first column.
        if self.line(1).is_some_and(str::is_empty) && self.line(2).is_none() {
            return write!(out, "ERROR: <input>:1:0: {}", issue.message);
        }
        write!(out, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
        let Some(snippet) = self.line(line).filter(|it| it.len() <= SNIPPET_BYTES_MAX) else {
            return Ok(());
        };
        write!(out, "\n | {}\n | ", snippet.replace('\t', " "))?;
        let mut rest = snippet.chars();
        for _ in 0..column {
            match rest.next() {
                Some(it) => out.write_str(if it.is_ascii() { "." } else { "\u{ff0e}" })?,
                None => break,
            }
        }
        out.write_str(match rest.next() {
            Some(it) if !it.is_ascii() => "\u{ff3e}",
            _ => "^",
        })
    }
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// One thing that is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub position: Position,
    pub message: String,
}

/// All that is wrong with an expression, in the order of the source. Its text is what cel-go prints.
#[derive(Debug, Clone)]
pub struct Issues {
    source: Source,
    issues: Vec<Issue>,
    /// How many were found beyond those that are kept.
    n_dropped: usize,
}

impl Issues {
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter()
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            self.source.render(issue, out)?;
        }
        if self.n_dropped > 0 {
            write!(out, "\n{} more errors were truncated", self.n_dropped)?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

/// Issues while they are collected.
#[derive(Debug, Default)]
pub(crate) struct Report {
    issues: Vec<Issue>,
    n_dropped: usize,
}

impl Report {
    pub(crate) fn add(&mut self, position: Position, message: impl Into<String>) {
        if self.issues.len() < ISSUES_MAX {
            self.issues.push(Issue { position, message: message.into() });
        } else {
            self.n_dropped += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    pub(crate) fn into_issues(mut self, source: Source) -> Issues {
        self.issues.sort_by_key(|it| it.position);
        Issues { source, issues: self.issues, n_dropped: self.n_dropped }
    }
}
