//! Where an oracle is otherwise than cel-go: by which rule, and an expression that shows it.

use cel::garbage::typed::Case;

use crate::compare::Difference;
use crate::oracles::Answer;

/// Whose answers ours are held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oracle {
    CelCore,
    KubeCel,
}

/// Expressions that an oracle cannot be asked about: it has not what is in them.
pub struct Missing {
    pub oracle: Oracle,
    pub name: &'static str,
    /// One of these is in the text.
    pub marks: &'static [&'static str],
    pub witness: &'static str,
}

/// An answer that is otherwise, and why ours is right.
pub struct Deviation {
    pub oracle: Oracle,
    pub name: &'static str,
    /// One of these is in the text.
    pub marks: &'static [&'static str],
    pub explains: fn(&Answer, &Answer) -> bool,
    pub witness: &'static str,
}

pub const MISSING: &[Missing] = &[];
pub const DEVIATIONS: &[Deviation] = &[];

/// Why the oracle is not asked.
pub fn not_asked(oracle: Oracle, case: &Case) -> Option<&'static str> {
    let has_mark = |it: &&Missing| it.marks.iter().any(|mark| case.text.contains(mark));
    MISSING.iter().filter(|it| it.oracle == oracle).find(has_mark).map(|it| it.name)
}

/// Why the answers are not the same.
pub fn explain(found: &Difference) -> Option<&'static str> {
    let fits = |it: &&Deviation| {
        it.marks.iter().any(|mark| found.case.text.contains(mark))
            && (it.explains)(&found.ours, &found.theirs)
    };
    DEVIATIONS.iter().filter(|it| it.oracle == found.oracle).find(fits).map(|it| it.name)
}
