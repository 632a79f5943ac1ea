//! Functions of the extensions: calls and what they give.

use crate::{Bindings, Env};

fn run(text: &str) -> String {
    let checked = match Env::extended().compile(text) {
        Ok(checked) => checked,
        Err(issues) => return format!("issues: {issues}"),
    };
    let program = match checked.program() {
        Ok(program) => program,
        Err(err) => return format!("error: {err}"),
    };
    match program.evaluate(&Bindings::new(), 1_000_000).result {
        Ok(value) => value.to_string(),
        Err(err) => format!("error: {err}"),
    }
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(text, expected)| {
            let found = run(text);
            (found != *expected)
                .then(|| format!("{text}\n  expected {expected}\n  found    {found}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn strings_are_cut_by_code_point() {
    check(&[
        ("'tacocat'.charAt(3)", "\"o\""),
        ("'tacocat'.charAt(7)", "\"\""),
        ("'\u{a9}\u{e0}'.charAt(1)", "\"\u{e0}\""),
        ("'tacocat'.charAt(8)", "error: index out of range: 8"),
        ("'tacocat'.charAt(-1)", "error: index out of range: -1"),
        ("'tacocat'.indexOf('')", "0"),
        ("'tacocat'.indexOf('ac')", "1"),
        ("'tacocat'.indexOf('none')", "-1"),
        ("'tacocat'.indexOf('a', 3)", "5"),
        ("'\u{a9}\u{e0}z'.indexOf('z')", "2"),
        ("'tacocat'.indexOf('a', -1)", "error: index out of range: -1"),
        ("'tacocat'.indexOf('a', 30)", "-1"),
        ("'tacocat'.lastIndexOf('at')", "5"),
        ("'tacocat'.lastIndexOf('')", "7"),
        ("'tacocat'.lastIndexOf('ac', 3)", "1"),
        ("'tacocat'.lastIndexOf('a', 5)", "5"),
        ("'tacocat'.lastIndexOf('a', 4)", "1"),
        ("'tacocat'.lastIndexOf('t', 6)", "6"),
        ("'tacocat'.lastIndexOf('none')", "-1"),
        ("'tacocat'.lastIndexOf('t', 7)", "-1"),
        ("'tacocat'.lastIndexOf('t', -1)", "error: index out of range: -1"),
        ("'a'.lastIndexOf('abc')", "-1"),
        ("'TacoCat \u{c6}'.lowerAscii()", "\"tacocat \u{c6}\""),
        ("'TacoCat \u{e6}'.upperAscii()", "\"TACOCAT \u{e6}\""),
        ("'hello hello'.replace('he', 'we')", "\"wello wello\""),
        ("'hello hello'.replace('he', 'we', 1)", "\"wello hello\""),
        ("'hello hello'.replace('he', 'we', 0)", "\"hello hello\""),
        ("'hello hello'.replace('he', 'we', -1)", "\"wello wello\""),
        ("'ab'.replace('', '-')", "\"-a-b-\""),
        ("'hello hello hello'.split(' ')", "[\"hello\", \"hello\", \"hello\"]"),
        ("'a,b,c'.split(',', 2)", "[\"a\", \"b,c\"]"),
        ("'a,b,c'.split(',', 0)", "[]"),
        ("'a,b,c'.split(',', 1)", "[\"a,b,c\"]"),
        ("'a,b,c'.split(',', -1)", "[\"a\", \"b\", \"c\"]"),
        ("'abc'.split('')", "[\"a\", \"b\", \"c\"]"),
        ("''.split('')", "[]"),
        ("''.split(',')", "[\"\"]"),
        ("'a,'.split(',')", "[\"a\", \"\"]"),
        ("'tacocat'.substring(4)", "\"cat\""),
        ("'tacocat'.substring(0, 4)", "\"taco\""),
        ("'tacocat'.substring(7)", "\"\""),
        ("'tacocat'.substring(8)", "error: index out of range: 8"),
        ("'tacocat'.substring(4, 2)", "error: invalid substring range. start: 4, end: 2"),
        ("'tacocat'.substring(0, 9)", "error: index out of range: 9"),
        ("'  \\ttrim\\n  '.trim()", "\"trim\""),
        ("'   '.trim()", "\"\""),
        ("['x', 'y'].join()", "\"xy\""),
        ("['x', 'y'].join('-')", "\"x-y\""),
        ("[].join('-')", "\"\""),
        (
            "strings.quote('first\\nsecond \"x\" \\\\')",
            "\"\\\"first\\\\nsecond \\\\\\\"x\\\\\\\" \\\\\\\\\\\"\"",
        ),
        ("'abc'.contains('b')", "true"),
        ("'abc'.startsWith('ab')", "true"),
        ("'abc'.endsWith('bc')", "true"),
        ("'abc'.endsWith('x')", "false"),
        ("'abc'.matches('^a.c$')", "true"),
        ("'xabcx'.matches('abc')", "true"),
        ("matches('abc', '[0-9]')", "false"),
        ("'abc'.matches('a' + '(')", "error: error parsing regexp: missing closing ): `a(`"),
        (
            "'abc'.reverse()",
            "issues: ERROR: <input>:1:14: found no matching overload for 'reverse' applied to 'string.()'\n | 'abc'.reverse()\n | .............^",
        ),
    ]);
}

#[test]
fn formats_are_those_of_version_2() {
    check(&[
        ("'%s and %s'.format(['a', 'b'])", "\"a and b\""),
        ("'%d%%'.format([50])", "\"50%\""),
        ("'%s'.format([1])", "\"1\""),
        ("'%s'.format([1.5])", "\"1.5\""),
        ("'%s'.format([true])", "\"true\""),
        ("'%s'.format([null])", "\"null\""),
        ("'%s'.format([['a', 'b']])", "\"[\\\"a\\\", \\\"b\\\"]\""),
        ("'%s'.format([{'b': 1, 'a': 2}])", "\"{\\\"a\\\":2, \\\"b\\\":1}\""),
        ("'%s'.format([duration('1h')])", "\"3600s\""),
        ("'%s'.format([[duration('1h')]])", "\"[duration(\\\"3600s\\\")]\""),
        ("'%s'.format([type(1)])", "\"int\""),
        ("'%.2f'.format([3.14159])", "\"3.14\""),
        ("'%f'.format([2.5])", "\"2.500000\""),
        ("'%.1f'.format([1234567.25])", "\"1,234,567.2\""),
        ("'%b'.format([5])", "\"101\""),
        ("'%b'.format([-5])", "\"-101\""),
        ("'%b'.format([true])", "\"1\""),
        ("'%o'.format([8])", "\"10\""),
        ("'%x'.format([255])", "\"ff\""),
        ("'%X'.format([255u])", "\"FF\""),
        ("'%x'.format(['hi'])", "\"6869\""),
        ("'%x'.format([b'\\x01'])", "\"01\""),
        (
            "'%d'.format([dyn('a')])",
            "error: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([dyn(optional.none())])",
            "error: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
        ),
        ("('%' + 'd').format([])", "error: index 0 out of range"),
    ]);
}

#[test]
fn lists_are_cut_sorted_and_flattened() {
    check(&[
        ("[1, 2, 3, 4].slice(1, 3)", "[2, 3]"),
        ("[1, 2].slice(2, 2)", "[]"),
        ("[1, 2].slice(-1, 2)", "error: cannot slice(-1, 2), negative indexes not supported"),
        (
            "[1, 2].slice(2, 1)",
            "error: cannot slice(2, 1), start index must be less than or equal to end index",
        ),
        ("[1, 2].slice(0, 3)", "error: cannot slice(0, 3), list is length 2"),
        ("[[1], [2, 3]].flatten()", "[1, 2, 3]"),
        ("[[[1]], [[2]]].flatten()", "[[1], [2]]"),
        ("[[[1]], [[2]]].flatten(2)", "[1, 2]"),
        ("[[1]].flatten(0)", "[[1]]"),
        ("[[1]].flatten(-1)", "error: level must be non-negative"),
        ("[3, 1, 2].sort()", "[1, 2, 3]"),
        ("['b', 'a'].sort()", "[\"a\", \"b\"]"),
        ("[].sort()", "[]"),
        ("[true, false].sort()", "[false, true]"),
        (
            "dyn([1, 2.0])",
            "issues: ERROR: <input>:1:9: expected type 'int' but found 'double'\n | dyn([1, 2.0])\n | ........^",
        ),
        ("[{'n': 2}, {'n': 1}].sortBy(e, e.n)", "[{\"n\": 1}, {\"n\": 2}]"),
        ("['ccc', 'a', 'bb'].sortBy(e, e.size())", "[\"a\", \"bb\", \"ccc\"]"),
        ("[1, 2, 2, 1, 3].distinct()", "[1, 2, 3]"),
        ("[].distinct()", "[]"),
        ("[1, 2, 3].reverse()", "[3, 2, 1]"),
        ("lists.range(3)", "[0, 1, 2]"),
        ("lists.range(0)", "[]"),
        ("lists.range(-1)", "[]"),
        ("lists.range(2000000000)", "error: operation cancelled: actual cost limit exceeded"),
        ("sets.contains([1, 2, 3], [2])", "true"),
        ("sets.contains([1], [2])", "false"),
        ("sets.contains([1], [])", "true"),
        ("sets.equivalent([1, 2], [2, 1, 1])", "true"),
        ("sets.equivalent([1, 2], [1])", "false"),
        ("sets.intersects([1, 2], [2, 3])", "true"),
        ("sets.intersects([1], [])", "false"),
    ]);
}
