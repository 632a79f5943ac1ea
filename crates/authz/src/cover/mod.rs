//! Whether rules give everything that others give. Pure.
//!
//! A rule is a box: every verb on every group, resource and name in it. It is never taken apart
//! into single permissions, of which a page of text can hold millions; what is held is cut out of
//! it, and what remains is what is missing.
//!
//! Wanted `get,list x pods,secrets`, held `get x pods`: what remains is `list x pods,secrets` and
//! `get x secrets`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::rule::{self, ANY, items};

/// How many values may be looked at in one comparison. The rules of real clusters need some
/// thousands; this many take some milliseconds, which is as long as one request may keep a thread.
const STEPS_MAX: usize = 100_000;
/// How much of what is missing a refusal lists: bytes in all, and verbs on one thing.
const TEXT_MAX: usize = 32 << 10;
const VERBS_MAX: usize = 100;

/// The rules are so large, and overlap in so many ways, that comparing them would take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// What rules lack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// One line for each group, resource and name, or path, as refusals show them; sorted.
    pub(crate) lines: Vec<String>,
    /// Whether there are more.
    pub(crate) has_more: bool,
}

/// What of `wanted` no rule in `held` gives; `None` if nothing is missing.
pub(crate) fn missing(
    held: &[PolicyRule],
    wanted: &[PolicyRule],
) -> Result<Option<Missing>, TooMany> {
    let mut steps = Steps(0);
    for rule in wanted {
        steps.take(size(rule))?;
    }
    let mut left: Vec<Area<'_>> = wanted.iter().flat_map(Area::of).collect();
    for rule in held {
        if left.is_empty() {
            break;
        }
        let held = Held::new(rule, &mut steps)?;
        for area in std::mem::take(&mut left) {
            area.cut(&held, &mut left, &mut steps)?;
        }
    }
    Ok((!left.is_empty()).then(|| render(&left)))
}

/// How many values a rule has on all its sides.
fn size(rule: &PolicyRule) -> usize {
    let lists = [&rule.api_groups, &rule.resources, &rule.resource_names, &rule.non_resource_urls];
    rule.verbs.len() + lists.into_iter().map(|it| items(it).len()).sum::<usize>()
}

/// How much has been looked at.
struct Steps(usize);

impl Steps {
    fn take(&mut self, n: usize) -> Result<(), TooMany> {
        self.0 = self.0.saturating_add(n);
        if self.0 > STEPS_MAX { Err(TooMany) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Group,
    Resource,
    Name,
    Path,
    Verb,
}

/// Sides that tell rules apart come first: most pairs have no group in common, and are done with
/// after one look.
const SIDES_RESOURCE: &[Side] = &[Side::Group, Side::Resource, Side::Verb];
const SIDES_NAMED: &[Side] = &[Side::Group, Side::Resource, Side::Name, Side::Verb];
const SIDES_PATH: &[Side] = &[Side::Path, Side::Verb];

/// Every combination of one value of each side. No side is empty. Without a side of names it is all
/// objects, which no list of names gives.
#[derive(Clone, Debug)]
struct Area<'a> {
    sides: &'static [Side],
    values: Vec<Vec<&'a str>>,
}

/// Without repetitions, in order.
fn distinct(list: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    list.iter().map(String::as_str).filter(|it| seen.insert(*it)).collect()
}

impl<'a> Area<'a> {
    /// A rule gives resources, or paths, or (which validation refuses) both.
    fn of(rule: &'a PolicyRule) -> impl Iterator<Item = Self> {
        let verbs = distinct(&rule.verbs);
        let names = distinct(items(&rule.resource_names));
        let groups = distinct(items(&rule.api_groups));
        let resources = distinct(items(&rule.resources));
        let paths = distinct(items(&rule.non_resource_urls));
        let objects = if names.is_empty() {
            Self { sides: SIDES_RESOURCE, values: vec![groups, resources, verbs.clone()] }
        } else {
            Self { sides: SIDES_NAMED, values: vec![groups, resources, names, verbs.clone()] }
        };
        let areas = [objects, Self { sides: SIDES_PATH, values: vec![paths, verbs] }];
        areas.into_iter().filter(|it| it.values.iter().all(|side| !side.is_empty()))
    }

    /// Puts what `held` does not give of this into `after`, in pieces that do not overlap.
    fn cut(self, held: &Held<'_>, after: &mut Vec<Self>, steps: &mut Steps) -> Result<(), TooMany> {
        if self.sides == SIDES_RESOURCE && !held.names.is_empty() {
            after.push(self);
            return Ok(());
        }
        let mut parts = Vec::with_capacity(self.sides.len());
        for (side, values) in self.sides.iter().zip(&self.values) {
            steps.take(values.len().saturating_mul(held.effort(*side)))?;
            let part: (Vec<&str>, Vec<&str>) = values.iter().partition(|it| held.gives(*side, it));
            if part.0.is_empty() {
                after.push(self);
                return Ok(());
            }
            parts.push(part);
        }
        for (at, (_, outside)) in parts.iter().enumerate().filter(|(_, it)| !it.1.is_empty()) {
            let inside = parts[..at].iter().map(|(inside, _)| inside.clone());
            let whole = self.values[at + 1..].iter().cloned();
            let values = inside.chain([outside.clone()]).chain(whole).collect();
            after.push(Self { sides: self.sides, values });
        }
        Ok(())
    }
}

/// A rule that somebody has, for quick look-ups.
struct Held<'a> {
    groups: BTreeSet<&'a str>,
    resources: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
    paths: &'a [String],
    verbs: BTreeSet<&'a str>,
}

impl<'a> Held<'a> {
    fn new(rule: &'a PolicyRule, steps: &mut Steps) -> Result<Self, TooMany> {
        steps.take(size(rule))?;
        let set = |list: &'a [String]| list.iter().map(String::as_str).collect();
        Ok(Self {
            groups: set(items(&rule.api_groups)),
            resources: set(items(&rule.resources)),
            names: set(items(&rule.resource_names)),
            verbs: set(&rule.verbs),
            paths: items(&rule.non_resource_urls),
        })
    }

    /// What one look-up costs.
    fn effort(&self, side: Side) -> usize {
        if side == Side::Path { self.paths.len().max(1) } else { 1 }
    }

    fn gives(&self, side: Side, value: &str) -> bool {
        let has = |set: &BTreeSet<&str>| set.contains(ANY) || set.contains(value);
        match side {
            Side::Group => has(&self.groups),
            Side::Resource => {
                let child = value.split_once('/').map(|(_, child)| format!("*/{child}"));
                has(&self.resources) || child.is_some_and(|it| self.resources.contains(&*it))
            }
            Side::Name => self.names.is_empty() || self.names.contains(value),
            Side::Path => rule::has_path(self.paths, value),
            Side::Verb => has(&self.verbs),
        }
    }
}

/// One line for all verbs on one thing. The work is bounded by what is shown, not by what the
/// pieces hold.
fn render(left: &[Area<'_>]) -> Missing {
    let mut shown: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    let mut room = Some(TEXT_MAX);
    let mut has_more = false;
    for area in left {
        let Some((verbs, things)) = area.values.split_last() else { continue };
        has_more |= verbs.len() > VERBS_MAX;
        let verbs = &verbs[..verbs.len().min(VERBS_MAX)];
        for thing in combinations(things) {
            let size: usize = thing.iter().chain(verbs).map(|it| it.len() + 1).sum();
            room = room.and_then(|it| it.checked_sub(size));
            if room.is_none() {
                break;
            }
            shown.entry(thing).or_default().extend(verbs);
        }
    }
    let mut lines: Vec<String> =
        shown.into_iter().map(|it| rule::render(&one(&it.0, &it.1))).collect();
    lines.sort();
    Missing { lines, has_more: has_more || room.is_none() }
}

/// The rule of `verbs` on one path, on one resource, or on one object.
fn one(thing: &[&str], verbs: &[&str]) -> PolicyRule {
    let list = |text: &str| Some(vec![text.to_owned()]);
    let mut rule = PolicyRule {
        verbs: verbs.iter().map(|it| (*it).to_owned()).collect(),
        ..PolicyRule::default()
    };
    match thing {
        [path] => rule.non_resource_urls = list(path),
        [group, resource, names @ ..] => {
            (rule.api_groups, rule.resources) = (list(group), list(resource));
            rule.resource_names = names.first().and_then(|it| list(it));
        }
        [] => {}
    }
    rule
}

/// Every combination of one value of each list, one after the other.
fn combinations<'a, 'b>(lists: &'b [Vec<&'a str>]) -> impl Iterator<Item = Vec<&'a str>> + 'b {
    let mut at = Some(vec![0; lists.len()]);
    std::iter::from_fn(move || {
        let places = at.take()?;
        let one = lists.iter().zip(&places).map(|(list, place)| list[*place]).collect();
        let mut next = places;
        for (list, place) in lists.iter().zip(&mut next).rev() {
            *place += 1;
            if *place < list.len() {
                at = Some(next);
                break;
            }
            *place = 0;
        }
        Some(one)
    })
}
