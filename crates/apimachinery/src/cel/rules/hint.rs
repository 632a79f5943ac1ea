//! Which bound would make a rule cheap enough: upstream says that bounds help, not where nor how
//! tight they have to be.

use std::fmt::Write as _;

use super::compile::Expression;
use super::definition::multiplies;
use crate::cel::schema::{Bound, Form, Node};
use crate::schema::{Schema, Type};

/// Bounds that are tried.
const BITS_MAX: u32 = 20;
/// Places that are looked at.
const PLACES_MAX: usize = 200;
const DEPTH_MAX: usize = 8;
/// A bound below is not much of a help if several would leave more room.
const ROOM_MIN: u64 = 16;
/// Places that are named if one alone does not do.
const NAMED_MAX: usize = 4;

/// The schemas above a rule: how often its own can be there.
#[derive(Debug)]
pub(super) struct Above<'p> {
    parent: Option<&'p Self>,
    /// Where it is in objects: `spec.rules[*]`.
    shown: String,
    /// By how much the schema right above multiplies; `None` if it has no bound.
    factor: Option<u64>,
    word: &'static str,
}

impl Above<'static> {
    pub(super) const ROOT: Self =
        Self { parent: None, shown: String::new(), factor: Some(1), word: "" };
}

impl Above<'_> {
    pub(super) fn field<'c>(&'c self, schema: &Schema, name: &str) -> Above<'c> {
        let dot = if self.shown.is_empty() { "" } else { "." };
        self.below(schema, format!("{}{dot}{name}", self.shown))
    }

    pub(super) fn entries<'c>(&'c self, schema: &Schema, part: &str) -> Above<'c> {
        let below = self.below(schema, format!("{}[*]", self.shown));
        Above { word: if part == "@items" { "maxItems" } else { "maxProperties" }, ..below }
    }

    fn below<'c>(&'c self, schema: &Schema, shown: String) -> Above<'c> {
        let word = if schema.kind == Type::Array { "maxItems" } else { "maxProperties" };
        Above { parent: Some(self), shown, factor: multiplies(schema), word }
    }

    /// How often the rule's schema can be there, had these schemas above (counted from the rule's)
    /// such bounds; `None` if one has none.
    pub(super) fn repeats(&self, bounds: &[(usize, u64)]) -> Option<u64> {
        let mut product: u64 = 1;
        let mut next = Some(self);
        let mut level = 0;
        while let Some(above) = next {
            let tried = bounds.iter().find(|(at, _)| *at == level).map(|(_, most)| *most);
            product = product.saturating_mul(tried.or(above.factor)?);
            next = above.parent;
            level += 1;
        }
        Some(product)
    }
}

/// A place without a bound.
#[derive(Clone, Debug)]
struct Candidate {
    shown: String,
    word: &'static str,
    at: At,
}

#[derive(Clone, Debug)]
enum At {
    Above(usize),
    /// From the rule's `self`; what the size is of each unit.
    Below(Vec<String>, u64),
}

/// `; maxItems: 64 at spec.rules would do`, or nothing if nothing would.
pub(super) fn hint(expression: &Expression, node: &Node, above: &Above<'_>, limit: u64) -> String {
    let judge = Judge { expression, node, above };
    let mut candidates = candidates(node, above);
    let none: &[(&Candidate, u64)] = &[];
    let cost = judge.cost(none);
    candidates.retain(|it| judge.cost(&[(it, 1)]) < cost);
    let alone = candidates.iter().filter_map(|it| Some((it, judge.largest(&[it], limit)?)));
    // The one that leaves most room.
    let alone = alone.max_by_key(|(_, most)| *most);
    let all: Vec<&Candidate> = candidates.iter().take(NAMED_MAX).collect();
    let together = judge.largest(&all, limit);
    if let Some((candidate, most)) = alone
        && (most >= ROOM_MIN || together.is_none_or(|it| it <= most))
    {
        return format!("; {}: {most} at {} would suffice", candidate.word, candidate.shown);
    }
    let Some(most) = together else { return String::new() };
    let mut text = String::from("; ");
    for (index, candidate) in all.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}{}: {most} at {}", candidate.word, candidate.shown);
    }
    text.push_str(" together would suffice");
    text
}

struct Judge<'j> {
    expression: &'j Expression,
    node: &'j Node,
    above: &'j Above<'j>,
}

impl Judge<'_> {
    fn cost(&self, tried: &[(&Candidate, u64)]) -> u64 {
        let mut below = Vec::new();
        let mut levels = Vec::new();
        for (candidate, most) in tried {
            match &candidate.at {
                At::Above(level) => levels.push((*level, *most)),
                At::Below(path, width) => {
                    below.push(Bound { path: path.clone(), most: most.saturating_mul(*width) });
                }
            }
        }
        let repeats = self.above.repeats(&levels).unwrap_or_else(|| self.node.repeats_max());
        self.expression.cost_with(&below).saturating_mul(repeats)
    }

    /// The largest power of two that is a bound tight enough for all of these.
    fn largest(&self, candidates: &[&Candidate], limit: u64) -> Option<u64> {
        let fits = |most: &u64| {
            let tried: Vec<_> = candidates.iter().map(|it| (*it, *most)).collect();
            self.cost(&tried) <= limit
        };
        if candidates.is_empty() {
            return None;
        }
        (0..=BITS_MAX).rev().map(|bits| 1 << bits).find(fits)
    }
}

fn candidates(node: &Node, above: &Above<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut next = Some(above);
    let mut level = 0;
    while let Some(here) = next {
        if here.factor.is_none() {
            let shown = here.parent.map_or("the root", |it| it.shown.as_str());
            let at = At::Above(level);
            found.push(Candidate { shown: shown.to_owned(), word: here.word, at });
        }
        next = here.parent;
        level += 1;
    }
    search(node, &mut Vec::new(), &above.shown, &mut found);
    found
}

fn search(node: &Node, path: &mut Vec<String>, shown: &str, found: &mut Vec<Candidate>) {
    if found.len() >= PLACES_MAX || path.len() > DEPTH_MAX {
        return;
    }
    let (word, width) = match &node.form {
        Form::List { .. } => ("maxItems", 1),
        Form::Map(_) => ("maxProperties", 1),
        Form::Text | Form::IntOrString => ("maxLength", 4),
        Form::Bytes => ("maxLength", 1),
        _ => ("", 1),
    };
    if !word.is_empty() && !node.is_bounded {
        let at = At::Below(path.clone(), width);
        let shown = if shown.is_empty() { "the root" } else { shown };
        found.push(Candidate { shown: shown.to_owned(), word, at });
    }
    match &node.form {
        Form::Object(fields) => {
            for (name, field) in fields {
                let Some(written) = crate::cel::schema::names::escape(name) else { continue };
                let dot = if shown.is_empty() { "" } else { "." };
                path.push(written);
                search(field, path, &format!("{shown}{dot}{name}"), found);
                path.pop();
            }
        }
        Form::List { item: element, .. } | Form::Map(element) => {
            let part = if matches!(node.form, Form::Map(_)) { "@values" } else { "@items" };
            path.push(part.to_owned());
            search(element, path, &format!("{shown}[*]"), found);
            path.pop();
        }
        _ => {}
    }
}
