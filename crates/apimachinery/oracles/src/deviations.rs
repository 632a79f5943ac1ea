//! Where an oracle is otherwise than cel-go: by which rule, and an expression that shows it.

use crate::compare::Difference;
use crate::oracles::Answer;

/// Whose answers ours are held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oracle {
    CelCore,
    KubeCel,
}

/// Forms of expressions that an oracle is not asked about: it has not what is in them, or whatever has
/// it in it comes to something else.
pub struct Missing {
    pub oracle: Oracle,
    pub name: &'static str,
    /// One of these is in the form.
    pub marks: &'static [&'static str],
    /// Ours has a value for it.
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

const fn missing(
    oracle: Oracle,
    name: &'static str,
    marks: &'static [&'static str],
    witness: &'static str,
) -> Missing {
    Missing { oracle, name, marks, witness }
}

/// Each witness is true by cel-go and by ours.
pub const MISSING: &[Missing] = &[
    missing(
        Oracle::CelCore,
        "no functions of lists and sets",
        &["sets.", "lists.", ".reverse(", ".slice(", ".flatten(", ".distinct(", ".sort"],
        "[2, 1].sort() == [1, 2]",
    ),
    missing(
        Oracle::CelCore,
        "no functions of Kubernetes'",
        &[
            "isSorted",
            ".sum(",
            ".min(",
            ".max(",
            "(A)}.indexOf(",
            "(A)}.lastIndexOf(",
            ".find",
            "uantity(",
            "URL(",
            "url(",
            "ip",
            "IP(",
            "cidr(",
            "CIDR(",
            "emver(",
            "format.",
        ],
        "[1, 2].sum() == 3",
    ),
    missing(
        Oracle::CelCore,
        "no transformMapEntry",
        &["transformMapEntry"],
        "[1].transformMapEntry(i, x, {x: i}).size() == 1",
    ),
    missing(
        Oracle::CelCore,
        "no order of numbers of different types",
        &["({int} >= {double})", "({double} < {int})", "({uint} <= {int})"],
        "1 < 1.5",
    ),
    missing(
        Oracle::CelCore,
        "a whole double is written with a fraction",
        &["string({double})", "'%s'.format([{double}])"],
        "string(1.0) == '1'",
    ),
    missing(
        Oracle::CelCore,
        "doubles are not formatted in English, with groups and powers of ten",
        &["%.2f"],
        "'%.2f'.format([1000.0]) == '1,000.00'",
    ),
    missing(
        Oracle::CelCore,
        "negative integers are formatted as the bits they are made of",
        &["%x", "%X"],
        "'%x'.format([-1]) == '-1'",
    ),
    missing(
        Oracle::CelCore,
        "a search from beyond the end is an error, and so is one for nothing from before the start",
        &[".lastIndexOf({string}, ", ".indexOf({string}, "],
        "'a'.lastIndexOf('b', 3) == -1",
    ),
    missing(
        Oracle::CelCore,
        "an empty separator has something before the first character",
        &[".split("],
        "'ab'.split('') == ['a', 'b']",
    ),
    missing(
        Oracle::CelCore,
        "the seconds of a negative duration are rounded down where it was computed",
        &["{duration}.getSeconds()", "{duration}.getMinutes()", "{duration}.getHours()"],
        "(duration('500ms') - duration('2s')).getSeconds() == -1",
    ),
    missing(
        Oracle::CelCore,
        "durations of nothing are no zero values",
        &["ofNonZeroValue("],
        "!optional.ofNonZeroValue(duration('0s')).hasValue()",
    ),
    missing(
        Oracle::CelCore,
        "the milliseconds of a duration are those of its second",
        &["{duration}.getMilliseconds()"],
        "duration('2500ms').getMilliseconds() == 2500",
    ),
    missing(
        Oracle::KubeCel,
        "the size of a text is that of its bytes",
        &["size({string})", "{string}.size()"],
        "'é'.size() == 1",
    ),
    missing(
        Oracle::KubeCel,
        "a search from before the start begins at the start",
        &["ndexOf({string}, "],
        "['a'].all(x, x.indexOf('a', -1) == 0) || true",
    ),
    missing(
        Oracle::KubeCel,
        "milliseconds of a duration wrap at 32 bits",
        &["{duration}.getMilliseconds()"],
        "duration('1200h').getMilliseconds() == 4320000000",
    ),
    missing(
        Oracle::KubeCel,
        "times are taken apart with the offset that they were written with",
        &["{timestamp}.get"],
        "timestamp('2023-12-31T23:59:59+01:00').getHours() == 22",
    ),
    missing(
        Oracle::KubeCel,
        "an empty separator has something before the first character",
        &[".split("],
        "'ab'.split('') == ['a', 'b']",
    ),
    missing(
        Oracle::KubeCel,
        "negative integers are formatted as the bits they are made of",
        &["%x", "%X"],
        "'%x'.format([-1]) == '-1'",
    ),
    missing(
        Oracle::KubeCel,
        "nothing has no place to be replaced at",
        &[".replace("],
        "''.replace('', 'c', -1) == 'c'",
    ),
    missing(
        Oracle::KubeCel,
        "a URL without a path has one",
        &["getEscapedPath"],
        "url('https://example.com').getEscapedPath() == ''",
    ),
    missing(
        Oracle::KubeCel,
        "no range of a negative number",
        &["lists.range("],
        "lists.range(-1) == []",
    ),
    missing(
        Oracle::KubeCel,
        "no optional fields, indices and entries",
        &[".?", "[?", "{?"],
        "{'a': 1}.?a.hasValue()",
    ),
    missing(
        Oracle::KubeCel,
        "no macros of optional values",
        &["optMap", "optFlatMap"],
        "optional.of(1).optMap(x, x + 1).hasValue()",
    ),
    missing(
        Oracle::KubeCel,
        "an optional value in a map is taken for an optional entry",
        &["optional"],
        "{'a': optional.of(1)}.a.value() == 1",
    ),
    missing(Oracle::KubeCel, "no conversion to bool", &["bool({#"], "bool('true')"),
    missing(Oracle::KubeCel, "no text of a bool", &["string({bool})"], "string(true) == 'true'"),
    missing(Oracle::KubeCel, "no dyn", &["dyn("], "dyn(1) == 1"),
    missing(Oracle::KubeCel, "no type", &["type("], "type(1) == int"),
    missing(
        Oracle::KubeCel,
        "no time of an integer",
        &["timestamp({int})"],
        "timestamp(0) == timestamp('1970-01-01T00:00:00Z')",
    ),
    missing(
        Oracle::KubeCel,
        "no integer of a time",
        &["int({timestamp})"],
        "int(timestamp('1970-01-01T00:00:00Z')) == 0",
    ),
    missing(Oracle::KubeCel, "no sortBy", &["sortBy"], "[2, 1].sortBy(x, x) == [1, 2]"),
    missing(
        Oracle::KubeCel,
        "no folds with two variables",
        &["($, $"],
        "[1].all(i, x, i < x)",
    ),
    missing(
        Oracle::KubeCel,
        "a named format is not optional",
        &["format.named"],
        "format.named('uuid').hasValue()",
    ),
    missing(
        Oracle::KubeCel,
        "a whole double is written with a fraction",
        &["string({double})", "'%s'.format([{double}])"],
        "'%s'.format([1.0]) == '1'",
    ),
    missing(
        Oracle::KubeCel,
        "doubles are not formatted in English, with groups and powers of ten",
        &["%.2f"],
        "'%.2f'.format([1000.0]) == '1,000.00'",
    ),
    missing(
        Oracle::KubeCel,
        "durations are written as Go prints them for debugging, or Rust does",
        &["string({duration})", "{duration}, {duration}"],
        "string(duration('100ms')) == '0.1s'",
    ),
    missing(
        Oracle::KubeCel,
        "times are not written in UTC with a Z",
        &["string({timestamp})", "format([{timestamp}"],
        "string(timestamp('1970-01-01T00:00:00Z')) == '1970-01-01T00:00:00Z'",
    ),
    missing(
        Oracle::KubeCel,
        "the sum of no doubles is an integer",
        &["list(double)}.sum()"],
        "type([1.0].filter(x, false).sum()) == double",
    ),
    missing(
        Oracle::KubeCel,
        "a sum of fractions that is whole counts as an integer, which upstream's numbers do not know",
        &["add(quantity("],
        "!quantity('1.5').add(quantity('1.5')).isInteger()",
    ),
    missing(
        Oracle::KubeCel,
        "bytes that are no text are converted with replacement characters",
        &["string({bytes})"],
        "[b'\\xff'].all(x, string(x) == '') || true",
    ),
];

const fn deviation(
    oracle: Oracle,
    name: &'static str,
    marks: &'static [&'static str],
    explains: fn(&Answer, &Answer) -> bool,
    witness: &'static str,
) -> Deviation {
    Deviation { oracle, name, marks, explains, witness }
}

fn only_theirs_fails(ours: &Answer, theirs: &Answer) -> bool {
    matches!((ours, theirs), (Answer::Value(_), Answer::Failed(_)))
}

fn only_ours_fails(ours: &Answer, theirs: &Answer) -> bool {
    matches!((ours, theirs), (Answer::Failed(_), Answer::Value(_)))
}

fn they_refuse(ours: &Answer, theirs: &Answer) -> bool {
    !matches!(ours, Answer::Refused(_)) && matches!(theirs, Answer::Refused(_))
}

fn is_overflow(it: &Answer) -> bool {
    matches!(it, Answer::Failed(why) if why.ends_with(" overflow"))
}

fn any(_ours: &Answer, _theirs: &Answer) -> bool {
    true
}

/// Each witness is true by cel-go and by ours.
pub const DEVIATIONS: &[Deviation] = &[
    deviation(
        Oracle::CelCore,
        "the other side of or and orValue is evaluated although it is not needed",
        &[".or(", ".orValue("],
        only_theirs_fails,
        "optional.of(1).orValue([1][3]) == 1",
    ),
    deviation(
        Oracle::CelCore,
        "has() of what fails is false",
        &["has("],
        any,
        "has([{'a': 1}][3].a) || true",
    ),
    deviation(
        Oracle::CelCore,
        "negative indices count from the end, also where an error is absorbed",
        &["["],
        |ours, theirs| {
            let is_negative = |it: &String| it.starts_with("index out of bounds: -");
            only_ours_fails(ours, theirs) && matches!(ours, Answer::Failed(it) if is_negative(it))
        },
        "[1][-1] == 1 || true",
    ),
    deviation(
        Oracle::CelCore,
        "negative indices count from the end, optional ones too",
        &["[?-1]", "[-1]"],
        any,
        "[1][?-1] == optional.none()",
    ),
    deviation(
        Oracle::CelCore,
        "negative indices count from the end, and what is found there absorbs another error",
        &["[i]", "[n]", ")]"],
        only_ours_fails,
        "[1][7] == 1 || [1][(0 - 1)] == 1 || true",
    ),
    deviation(
        Oracle::CelCore,
        "computed durations below zero are compared by their rounded seconds first",
        &["duration('-2.5s')"],
        any,
        "duration('-2.5s') + duration('100ms') > duration('-2.5s')",
    ),
    deviation(
        Oracle::CelCore,
        "no places in lists, where a wrong expression happens to have a type",
        &[".indexOf(", ".lastIndexOf("],
        they_refuse,
        "['a', 'b'].indexOf('b') == 1",
    ),
    deviation(
        Oracle::CelCore,
        "no order of numbers of different types",
        &[" < ", " <= ", " > ", " >= "],
        they_refuse,
        "1u < 1.5",
    ),
    deviation(
        Oracle::CelCore,
        "durations of more than 292 years",
        &["timestamp("],
        |ours, theirs| is_overflow(ours) && only_ours_fails(ours, theirs),
        "[timestamp('0001-01-01T00:00:00Z')].all(x, timestamp(0) - x > duration('1s')) || true",
    ),
    deviation(
        Oracle::KubeCel,
        "durations of more than 292 years, times beyond the year 9999",
        &["timestamp("],
        |ours, theirs| is_overflow(ours) && only_ours_fails(ours, theirs),
        "[timestamp('0001-01-01T00:00:00Z')].all(x, timestamp('1970-01-01T00:00:00Z') - x > duration('1s')) || true",
    ),
    deviation(
        Oracle::KubeCel,
        "conversions of doubles stop at the ends and take NaN for zero",
        &["uint(", "int("],
        only_ours_fails,
        "[0.0 / 0.0].all(x, uint(x) == 0u) || true",
    ),
    deviation(
        Oracle::CelCore,
        "two signs are applied, not dropped by the parser",
        &["--"],
        any,
        "--'a' == 'a'",
    ),
    deviation(
        Oracle::KubeCel,
        "texts of doubles in lists, where a wrong expression happens to have a type",
        &["format("],
        any,
        "'%s'.format([[1.0]]) == '[1.000000]'",
    ),
    deviation(
        Oracle::KubeCel,
        "what is no number cannot be sorted, not even as an equal of all",
        &[".sort("],
        only_theirs_fails,
        "[1.0, 0.0 / 0.0].sort().size() == 2",
    ),
    deviation(
        Oracle::KubeCel,
        "texts of times and sizes of texts, where a wrong expression happens to have a type",
        &["string(", "size("],
        any,
        "'é'.size() == 1",
    ),
    deviation(
        Oracle::KubeCel,
        "an error in all is not absorbed by a later false",
        &[".all("],
        only_theirs_fails,
        "![2, 1].all(x, 1 / (x - 2) > 5)",
    ),
    deviation(
        Oracle::KubeCel,
        "an error in exists is not absorbed by a later true",
        &[".exists("],
        only_theirs_fails,
        "[2, 1].exists(x, 1 / (x - 2) < 5)",
    ),
    deviation(
        Oracle::KubeCel,
        "sums and negations of integers wrap",
        &[".sum()", "-(-9223372036854775808)"],
        |ours, theirs| is_overflow(ours) && only_ours_fails(ours, theirs),
        "[[9223372036854775807, 1]].all(x, x.sum() == 1) || true",
    ),
    deviation(
        Oracle::KubeCel,
        "durations of more than 292 years absorb another error",
        &["timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')"],
        only_ours_fails,
        "timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z') > duration('1s') || true",
    ),
    deviation(
        Oracle::KubeCel,
        "two negations are read as one",
        &["!!"],
        any,
        "[true].all(x, !!x)",
    ),
    deviation(
        Oracle::KubeCel,
        "two signs are read as one",
        &["--"],
        any,
        "[1].all(x, --x == 1)",
    ),
    deviation(
        Oracle::CelCore,
        "texts of doubles, where a wrong expression happens to have a type",
        &["string(", "format("],
        any,
        "string(1e30) == '1e+30'",
    ),
    deviation(
        Oracle::CelCore,
        "no integer of a duration",
        &["int("],
        they_refuse,
        "int(duration('1s')) == 1000000000",
    ),
    deviation(
        Oracle::KubeCel,
        "conversions that are missing, where a wrong expression happens to have a type",
        &["string(", "int(", "timestamp("],
        only_theirs_fails,
        "string(true) == 'true'",
    ),
    deviation(
        Oracle::CelCore,
        "an optional element of a list or map of optionals is flattened by the checker",
        &["[?", ".?"],
        they_refuse,
        "[optional.of(1)][?0].value().value() == 1",
    ),
];

/// Why the oracle is not asked about a form.
pub fn not_asked(oracle: Oracle, row: &str) -> Option<&'static str> {
    let has_mark = |it: &&Missing| it.marks.iter().any(|mark| row.contains(mark));
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
