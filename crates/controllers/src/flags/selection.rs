//! `--controllers`: a list of what runs and what does not, as upstream reads it.

use crate::availability::ABSENT;
use crate::{ALL, Descriptor};

/// One entry of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// `*`: all that are on by default.
    Default,
    /// `name`
    On(&'static str),
    /// `-name`
    Off(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Selection {
    choices: Vec<Choice>,
    /// What a star does not mean here.
    left_out: &'static [&'static str],
    /// And what it means beside the default.
    added: &'static [&'static str],
}

impl Selection {
    pub(crate) fn new(choices: impl Iterator<Item = Choice>) -> Self {
        Self { choices: choices.collect(), left_out: &[], added: &[] }
    }

    /// A star does not mean these.
    pub(crate) fn leave_out(&mut self, names: &'static [&'static str]) {
        self.left_out = names;
    }

    /// A star means these, too.
    pub(crate) fn add(&mut self, names: &'static [&'static str]) {
        self.added = names;
    }

    /// What is said first of a controller by its name counts; a star says something of those that
    /// are not named.
    pub(crate) fn has(&self, controller: &Descriptor) -> bool {
        let named = self.choices.iter().find_map(|it| match it {
            Choice::On(name) if *name == controller.name => Some(true),
            Choice::Off(name) if *name == controller.name => Some(false),
            _ => None,
        });
        let is_default = || {
            let is_on = controller.is_on_by_default || self.added.contains(&controller.name);
            is_on && !self.left_out.contains(&controller.name)
        };
        named.unwrap_or_else(|| is_default() && self.choices.contains(&Choice::Default))
    }

    /// Whether it is meant by its own name, not by a star.
    pub(crate) fn names(&self, controller: &Descriptor) -> bool {
        self.choices.contains(&Choice::On(controller.name)) && self.has(controller)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{given:?} is not in the list of known controllers; the nearest is {nearest:?}")]
    Unknown { given: String, nearest: &'static str },
    #[error("{given:?} cannot run here: {why}")]
    Absent { given: String, why: &'static str },
}

pub(crate) fn parse_choice(text: &str) -> Result<Choice, Refused> {
    if text == "*" {
        return Ok(Choice::Default);
    }
    let (is_off, given) = match text.strip_prefix('-') {
        Some(name) => (true, name),
        None => (false, text),
    };
    let known = ALL.iter().find(|it| it.name == given || it.aliases.contains(&given));
    match known {
        Some(it) if is_off => Ok(Choice::Off(it.name)),
        Some(it) => Ok(Choice::On(it.name)),
        None => parse_absent(is_off, given),
    }
}

/// One that does not run here may be switched off all the same.
fn parse_absent(is_off: bool, given: &str) -> Result<Choice, Refused> {
    let absent = ABSENT.iter().find(|it| it.0 == given || it.1.contains(&given));
    match absent {
        Some((name, ..)) if is_off => Ok(Choice::Off(name)),
        Some((_, _, why)) => Err(Refused::Absent { given: given.to_owned(), why }),
        None => Err(Refused::Unknown { given: given.to_owned(), nearest: nearest(given) }),
    }
}

fn nearest(given: &str) -> &'static str {
    let names = ALL.iter().flat_map(|it| it.aliases.iter().copied().chain([it.name]));
    let absent = ABSENT.iter().flat_map(|it| it.1.iter().copied().chain([it.0]));
    let names = names.chain(absent);
    names.min_by_key(|it| distance(given, it)).unwrap_or_default()
}

/// How many letters must be put in, taken out or changed to get from one to the other.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    // `row[n]`: from the letters of `one` so far to the first n of `two`.
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (position, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], position + 1);
        for (n, other) in two.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[n + 1];
            row[n + 1] = changed.min(row[n] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}

pub(crate) fn help() -> String {
    let names = |is_on: bool| -> String {
        let names = ALL.iter().filter(|it| it.is_on_by_default == is_on).map(|it| it.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let on = names(true);
    let off = Some(names(false)).filter(|it| !it.is_empty());
    let off = off.map(|it| format!("; off unless named: {it}")).unwrap_or_default();
    format!(
        "What runs: '*' all that are on by default, 'name' that one, '-name' not that one. On by default: {on}{off}"
    )
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_count_letters() {
        let check = |one, two, expected| assert_eq!(distance(one, two), expected, "{one} {two}");
        check("", "", 0);
        check("", "job", 3);
        check("job", "", 3);
        check("job", "jobs", 1);
        check("cronjob", "job", 4);
        check("deploymnet", "deployment", 2);
    }
}
