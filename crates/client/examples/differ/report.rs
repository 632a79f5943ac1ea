//! What was found, counted: by what differs, by kind, by request, and in groups of the same sort.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::allowed::Allowed;
use crate::compare::{Difference, Of};
use crate::requests::Ask;

/// Of a body in a sample.
const BODY_MAX: usize = 700;
/// Of an answer in a sample.
const SHOWN_MAX: usize = 1_500;
/// Samples of a group that are kept.
const SAMPLES_MAX: usize = 2;

#[derive(Default)]
pub(crate) struct Report {
    kinds: BTreeMap<String, Count>,
    verbs: BTreeMap<String, Count>,
    by_difference: BTreeMap<Of, usize>,
    allowed: BTreeMap<String, usize>,
    groups: BTreeMap<(Of, String, String), Group>,
    n_unanswered: usize,
    n_outdated: usize,
    n_accepted: usize,
}

#[derive(Default)]
struct Count {
    n_asked: usize,
    n_allowed: usize,
    n_other: usize,
}

#[derive(Default)]
struct Group {
    count: usize,
    kinds: BTreeMap<String, usize>,
    samples: Vec<String>,
}

impl Report {
    /// Upstream met a mistake of its own.
    pub(crate) fn unanswered(&mut self) {
        self.n_unanswered += 1;
    }

    /// A controller within one of the servers has changed the object meanwhile.
    pub(crate) fn outdated(&mut self) {
        self.n_outdated += 1;
    }

    pub(crate) fn alike(&mut self, kind: &str, ask: &Ask, is_accepted: bool) {
        self.n_accepted += usize::from(is_accepted);
        self.counts(kind, ask, |_| {});
    }

    pub(crate) fn different(
        &mut self,
        allowed: &Allowed,
        kind: &str,
        ask: &Ask,
        difference: &Difference,
    ) {
        if let Some(reason) = allowed.reason(kind, &ask.what, difference) {
            *self.allowed.entry(reason.to_owned()).or_default() += 1;
            return self.counts(kind, ask, |it| it.n_allowed += 1);
        }
        if difference.of != Of::Message {
            self.counts(kind, ask, |it| it.n_other += 1);
        } else {
            self.counts(kind, ask, |_| {});
        }
        *self.by_difference.entry(difference.of).or_default() += 1;
        let key = (difference.of, sort_of(&difference.upstream), sort_of(&difference.ours));
        let group = self.groups.entry(key).or_default();
        group.count += 1;
        *group.kinds.entry(kind.to_owned()).or_default() += 1;
        if group.samples.len() < SAMPLES_MAX {
            let body: String = ask.bodies[1].chars().take(BODY_MAX).collect();
            let cut = |it: &String| it.chars().take(SHOWN_MAX).collect::<String>();
            let (upstream, ours) = (cut(&difference.upstream), cut(&difference.ours));
            group.samples.push(format!(
                "    {kind}, {} {}: {}\n      upstream  {upstream}\n      ours      {ours}\n      body      {body}\n",
                ask.method, ask.path, ask.what
            ));
        }
    }

    fn counts(&mut self, kind: &str, ask: &Ask, count: impl Fn(&mut Count)) {
        let verb =
            format!("{}{}", ask.verb.name(), if ask.is_status { " of the status" } else { "" });
        let both =
            [self.kinds.entry(kind.to_owned()).or_default(), self.verbs.entry(verb).or_default()];
        for it in both {
            it.n_asked += 1;
            count(it);
        }
    }

    /// As text, with the `n_shown` most frequent groups.
    pub(crate) fn print(&self, n_shown: usize) -> String {
        let mut text = String::new();
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|it| std::cmp::Reverse(it.1.count));
        for ((of, ..), group) in groups.iter().take(n_shown) {
            let kinds: Vec<_> = group.kinds.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
            let _ = writeln!(text, "{} times, {}: {}", group.count, of.name(), kinds.join(", "));
            group.samples.iter().for_each(|it| text.push_str(it));
        }
        let line = |text: &mut String, name: &str, it: &Count| {
            let Count { n_asked, n_allowed, n_other } = it;
            let alike = percent(n_asked - n_other - n_allowed, *n_asked);
            let _ = writeln!(
                text,
                "{name:60} {n_asked:7} asked {n_other:6} otherwise {n_allowed:6} known  {alike:6.2} % alike"
            );
        };
        self.kinds.iter().for_each(|(name, it)| line(&mut text, name, it));
        text.push('\n');
        self.verbs.iter().for_each(|(name, it)| line(&mut text, name, it));
        text.push('\n');
        for (reason, n) in &self.allowed {
            let _ = writeln!(text, "{n:7} known: {reason}");
        }
        self.print_sums(&mut text);
        text
    }

    fn print_sums(&self, text: &mut String) {
        let sum = |of: fn(&Count) -> usize| self.kinds.values().map(of).sum::<usize>();
        let (n_asked, n_other, n_allowed) =
            (sum(|it| it.n_asked), sum(|it| it.n_other), sum(|it| it.n_allowed));
        let mut n_left = n_asked - n_allowed;
        let _ = writeln!(
            text,
            "\n{n_asked} requests, {} passed over (upstream gave no answer), {} of objects that changed; {} accepted and alike",
            self.n_unanswered, self.n_outdated, self.n_accepted
        );
        for of in Of::ALL {
            let n = self.by_difference.get(of).copied().unwrap_or_default();
            n_left -= n;
            let same = percent(n_left, n_asked - n_allowed);
            let _ =
                writeln!(text, "  {:9} {n:6} differ, {same:6.2} % the same up to here", of.name());
        }
        let _ = writeln!(
            text,
            "{n_other} answered otherwise, {n_allowed} differences are known: {:.2} % alike, {:.2} % alike or known",
            percent(n_asked - n_other - n_allowed, n_asked),
            percent(n_asked - n_other, n_asked)
        );
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Without what is of one request alone: values in quotes, numbers.
fn sort_of(text: &str) -> String {
    let (mut sort, mut is_quoted) = (String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => continue,
            '0'..='9' if sort.ends_with('0') => continue,
            _ => {}
        }
        sort.push(if letter.is_ascii_digit() { '0' } else { letter });
    }
    sort.truncate(sort.char_indices().nth(160).map_or(sort.len(), |it| it.0));
    sort
}
