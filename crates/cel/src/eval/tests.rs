//! Expressions and what they are worth.

use serde_json::json;

use super::Bindings;
use crate::{AnySize, Env, Error, Type, UNTYPED, from_json};

fn env() -> Env {
    Env::extended()
        .variable("i", Type::Int)
        .variable("u", Type::Uint)
        .variable("d", Type::Double)
        .variable("b", Type::Bool)
        .variable("s", Type::String)
        .variable("l", Type::list(Type::Int))
        .variable("m", Type::map(Type::String, Type::Int))
        .variable("o", Type::Dyn)
        .variable("maybe", Type::optional(Type::Int))
        .variable("missing", Type::Int)
}

/// The value as text, or the error after `error: `.
fn run(text: &str) -> String {
    let object = json!({
        "name": "web", "n": 3, "ratio": 0.5, "none": null,
        "items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
        "labels": {"app": "x", "tier": "y"},
    });
    let list = json!([1, 2, 3]);
    let map = json!({"a": 1, "b": 2});
    let checked = match env().compile(text) {
        Ok(checked) => checked,
        Err(issues) => return format!("issues: {issues}"),
    };
    let outcome = |program: crate::Program| {
        let variables = Bindings::new()
            .with("i", 7i64.into())
            .with("u", 7u64.into())
            .with("d", 1.5.into())
            .with("b", true.into())
            .with("s", crate::Value::borrowed("h\u{e9}llo"))
            .with("l", from_json(&list, &UNTYPED).unwrap())
            .with("m", from_json(&map, &UNTYPED).unwrap())
            .with("o", from_json(&object, &UNTYPED).unwrap())
            .with("maybe", crate::Value::some(5i64.into()));
        match program.evaluate(&variables, 1_000_000).result {
            Ok(value) => value.to_string(),
            Err(err) => format!("error: {err}"),
        }
    };
    let folded = match checked.program() {
        Ok(program) => outcome(program),
        Err(err) => format!("error: {err}"),
    };
    let plain = outcome(checked.program_unfolded().unwrap());
    assert_eq!(folded, plain, "{text}: folding changes the result");
    folded
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
fn literals_are_what_they_say() {
    check(&[
        ("null", "null"),
        ("true", "true"),
        ("false", "false"),
        ("0", "0"),
        ("-1", "-1"),
        ("0x1F", "31"),
        ("-0x10", "-16"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("5u", "5u"),
        ("0xFFu", "255u"),
        ("18446744073709551615u", "18446744073709551615u"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("1e3", "1000.0"),
        ("1.5e-2", "0.015"),
        ("'a'", "\"a\""),
        ("\"it's\"", "\"it's\""),
        (r"'\n\t\\\'\x41\u00e9\U0001F600\101'", "\"\\n\\t\\\\'A\u{e9}\u{1f600}A\""),
        (r"r'\n'", "\"\\\\n\""),
        ("R\"a\\d\"", "\"a\\\\d\""),
        ("'''a\n'b' c'''", "\"a\\n'b' c\""),
        ("\"\"\"x\"\"\"", "\"x\""),
        (r"b'\x00\xff'", "b\"\\x00\\xff\""),
        ("b'\u{e9}'", "b\"\\xc3\\xa9\""),
        ("br'a\\n'", "b\"a\\\\n\""),
        ("[1, 2,]", "[1, 2]"),
        ("[]", "[]"),
        ("{'a': 1, 'b': 2,}", "{\"a\": 1, \"b\": 2}"),
        ("{}", "{}"),
        ("{1: 'x', 2: 'y'}", "{1: \"x\", 2: \"y\"}"),
        ("{true: 1}", "{true: 1}"),
        ("// nothing\n1 // one\n", "1"),
    ]);
}

#[test]
fn arithmetic_never_wraps() {
    check(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("7u / 2u", "3u"),
        ("7u % 4u", "3u"),
        ("1.5 + 1.5", "3.0"),
        ("3.0 / 2.0", "1.5"),
        ("1.0 / 0.0", "inf"),
        ("1 - 5", "-4"),
        ("2u - 1u", "1u"),
        ("2.5 * 2.0", "5.0"),
        ("-i", "-7"),
        ("--i", "7"),
        ("-(1.5)", "-1.5"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("-9223372036854775808 - 1", "error: integer overflow"),
        ("9223372036854775807 * 2", "error: integer overflow"),
        ("-(-9223372036854775808)", "error: integer overflow"),
        ("-9223372036854775808 / -1", "error: integer overflow"),
        ("1u - 2u", "error: unsigned integer overflow"),
        ("18446744073709551615u + 1u", "error: unsigned integer overflow"),
        ("18446744073709551615u * 2u", "error: unsigned integer overflow"),
        ("1 / 0", "error: division by zero"),
        ("1u / 0u", "error: division by zero"),
        ("1 % 0", "error: modulus by zero"),
        ("1u % 0u", "error: modulus by zero"),
        ("'a' + 'b'", "\"ab\""),
        ("b'a' + b'b'", "b\"ab\""),
        ("[1] + [2, 3]", "[1, 2, 3]"),
        ("l + l", "[1, 2, 3, 1, 2, 3]"),
        ("dyn(1) + dyn(2)", "3"),
        ("dyn(1) + dyn('a')", "error: no such overload"),
        ("dyn('a') - dyn('b')", "error: no such overload"),
    ]);
}

#[test]
fn numbers_compare_across_types() {
    check(&[
        ("1 < 2", "true"),
        ("2 <= 2", "true"),
        ("3 > 4", "false"),
        ("1 < 1.5", "true"),
        ("1u < 2", "true"),
        ("-1 < 1u", "true"),
        ("2.5 > 2u", "true"),
        ("1 >= 1.0", "true"),
        ("9223372036854775807 < 9223372036854775808u", "true"),
        ("18446744073709551615u > -1.0", "true"),
        ("'a' < 'b'", "true"),
        ("b'a' <= b'a'", "true"),
        ("false < true", "true"),
        ("duration('1s') < duration('1m')", "true"),
        ("timestamp('2020-01-01T00:00:00Z') < timestamp('2021-01-01T00:00:00Z')", "true"),
        ("1 == 1", "true"),
        ("dyn(1) == dyn(1.0)", "true"),
        ("dyn(1) == dyn(1u)", "true"),
        ("dyn(1) == dyn('1')", "false"),
        ("dyn(1) != dyn('1')", "true"),
        ("dyn(null) == dyn(1)", "false"),
        ("null == null", "true"),
        ("[1, 2] == [1, 2]", "true"),
        ("[1, 2] == [2, 1]", "false"),
        ("dyn([1]) == dyn([1.0])", "true"),
        ("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "true"),
        ("{'a': 1} == {'a': 2}", "false"),
        ("o.items == [{'k': dyn('a'), 'v': dyn(1)}, {'k': dyn('b'), 'v': dyn(2)}]", "true"),
        ("double('NaN') == double('NaN')", "false"),
        ("double('NaN') < 1.0", "error: NaN values cannot be ordered"),
        ("dyn('a') < dyn(1)", "error: no such overload"),
        ("duration('60s') == duration('1m')", "true"),
        ("optional.of(1) == optional.of(1)", "true"),
        ("optional.none() == optional.of(1)", "false"),
        ("type(1) == int", "true"),
        ("type(1) == type(2)", "true"),
        ("type('a') == string", "true"),
        ("type(null) == null_type", "true"),
        ("type([]) == list", "true"),
        ("type({}) == map", "true"),
        ("type(int) == type", "true"),
        ("type(duration('1s')) == google.protobuf.Duration", "true"),
        ("type(optional.none()) == optional_type", "true"),
    ]);
}

#[test]
fn logic_absorbs_errors_that_do_not_matter() {
    check(&[
        ("true && false", "false"),
        ("true || false", "true"),
        ("!b", "false"),
        ("!!b", "true"),
        ("1 / 0 == 1 && false", "false"),
        ("false && 1 / 0 == 1", "false"),
        ("1 / 0 == 1 || true", "true"),
        ("true || 1 / 0 == 1", "true"),
        ("1 / 0 == 1 && true", "error: division by zero"),
        ("1 / 0 == 1 || false", "error: division by zero"),
        ("1 / 0 == 1 || 1 % 0 == 1", "error: division by zero"),
        ("dyn(1) && true", "error: no such overload"),
        ("dyn(1) || true", "true"),
        ("b ? 1 : 2", "1"),
        ("!b ? 1 : 2", "2"),
        ("b ? 1 : 1 / 0", "1"),
        ("dyn(1) ? 1 : 2", "error: no such overload"),
        ("b && b && b && b && !b", "false"),
        ("false || false || true", "true"),
        ("i > 5 ? (i < 10 ? 'mid' : 'high') : 'low'", "\"mid\""),
        ("i < 5 ? 'low' : i < 10 ? 'mid' : 'high'", "\"mid\""),
        ("missing == 1", "error: no such attribute(s): missing"),
    ]);
}

#[test]
fn fields_and_elements_are_found() {
    check(&[
        ("o.name", "\"web\""),
        ("o['name']", "\"web\""),
        ("o.items[1].k", "\"b\""),
        ("o.items[0]['v']", "1"),
        ("o.labels.app", "\"x\""),
        ("o.nothing", "error: no such key: nothing"),
        ("o.items[5]", "error: index out of bounds: 5"),
        ("o.items[-1]", "error: index out of bounds: -1"),
        ("l[0] + l[2]", "4"),
        ("l[3]", "error: index out of bounds: 3"),
        ("m['a']", "1"),
        ("m.b", "2"),
        ("m['c']", "error: no such key: c"),
        ("m.c", "error: no such key: c"),
        ("{1: 'a'}[1]", "\"a\""),
        ("{1: 'a'}[dyn(1u)]", "\"a\""),
        ("{1: 'a'}[dyn(1.0)]", "\"a\""),
        ("{1u: 'a'}[1u]", "\"a\""),
        ("{true: 'a'}[true]", "\"a\""),
        ("[1, 2][dyn(1.0)]", "2"),
        ("[1, 2][dyn('x')]", "error: unsupported index type 'string' in list"),
        ("o.name.x", "error: no such key: x"),
        ("has(o.name)", "true"),
        ("has(o.nothing)", "false"),
        ("has(o.none)", "true"),
        ("has(o.labels.app)", "true"),
        ("has(o.labels.gone)", "false"),
        ("has(o.nothing.deeper)", "error: no such key: nothing"),
        ("has({'a': 1}.a)", "true"),
        ("has({'a': 1}.b)", "false"),
        ("o.none == null", "true"),
        ("[[1, 2], [3]][1][0]", "3"),
        ("{'a': {'b': 3}}.a.b", "3"),
        ("o.`name`", "\"web\""),
        ("i in l", "false"),
        ("2 in l", "true"),
        ("2 in [1, 2]", "true"),
        ("5 in [1, 2]", "false"),
        ("'x' in ['a', 'x']", "true"),
        ("1 in []", "false"),
        ("dyn(1.0) in [1, 2]", "true"),
        ("dyn(2u) in [1, 2]", "true"),
        ("1.5 in [1.5]", "true"),
        ("'a' in m", "true"),
        ("'z' in m", "false"),
        ("'app' in o.labels", "true"),
        ("[1] in [[1], [2]]", "true"),
        ("{'a': 1, 'a': 2}", "{\"a\": 2}"),
    ]);
}

#[test]
fn sizes_are_code_points_bytes_or_elements() {
    check(&[
        ("size('h\u{e9}llo')", "5"),
        ("s.size()", "5"),
        ("size(b'h\u{e9}')", "3"),
        ("l.size()", "3"),
        ("size(m)", "2"),
        ("size([])", "0"),
        ("o.items.size()", "2"),
        ("o.labels.size()", "2"),
        ("dyn(1).size()", "error: no such overload: size"),
    ]);
}

#[test]
fn folds_go_over_lists_and_maps() {
    check(&[
        ("l.all(x, x > 0)", "true"),
        ("l.all(x, x > 1)", "false"),
        ("[].all(x, x > 1)", "true"),
        ("l.exists(x, x == 2)", "true"),
        ("l.exists(x, x == 9)", "false"),
        ("l.exists_one(x, x == 2)", "true"),
        ("l.exists_one(x, x > 1)", "false"),
        ("l.existsOne(x, x > 2)", "true"),
        ("l.map(x, x * 2)", "[2, 4, 6]"),
        ("l.map(x, x > 1, x * 2)", "[4, 6]"),
        ("l.filter(x, x != 2)", "[1, 3]"),
        ("m.all(k, m[k] > 0)", "true"),
        ("m.exists(k, k == 'a')", "true"),
        ("m.map(k, k)", "[\"a\", \"b\"]"),
        ("m.filter(k, m[k] > 1)", "[\"b\"]"),
        ("o.items.filter(it, it.v > 1).map(it, it.k)", "[\"b\"]"),
        ("o.items.all(it, has(it.k))", "true"),
        ("[1, 2].map(x, [3, 4].map(y, x * y))", "[[3, 4], [6, 8]]"),
        ("[[1], [2, 3]].map(x, x.size())", "[1, 2]"),
        ("[1, 2].all(x, [1, 2].exists(y, x == y))", "true"),
        ("[1, 0].all(x, 1 / x > 5)", "false"),
        ("[0, 1].all(x, 1 / x > 5)", "false"),
        ("[1, 0].exists(x, 1 / x == 1)", "true"),
        ("[0].exists(x, 1 / x == 1)", "error: division by zero"),
        ("[1, 0].map(x, 1 / x)", "error: division by zero"),
        ("[1, 0].exists_one(x, 1 / x == 1)", "error: division by zero"),
        ("dyn(1).map(x, x)", "error: got 'types.Int', expected iterable type"),
        ("l.all(ix, v, ix < v)", "true"),
        ("l.exists(ix, v, ix == 2 && v == 3)", "true"),
        ("l.existsOne(ix, v, v > 2)", "true"),
        ("m.all(k, v, v > 0)", "true"),
        ("m.exists(k, v, k == 'b' && v == 2)", "true"),
        ("m.exists_one(k, v, v == 2)", "true"),
        ("l.transformList(ix, v, ix * v)", "[0, 2, 6]"),
        ("l.transformList(ix, v, ix > 0, v)", "[2, 3]"),
        ("m.transformList(k, v, v)", "[1, 2]"),
        ("m.transformMap(k, v, v + 1)", "{\"a\": 2, \"b\": 3}"),
        ("m.transformMap(k, v, v > 1, v + 1)", "{\"b\": 3}"),
        ("l.transformMap(ix, v, v)", "{0: 1, 1: 2, 2: 3}"),
        ("m.transformMapEntry(k, v, {v: k})", "{1: \"a\", 2: \"b\"}"),
        ("l.transformMapEntry(ix, v, v > 1, {v: ix})", "{2: 1, 3: 2}"),
        ("[1, 1].transformMapEntry(ix, v, {v: ix})", "error: insert failed: key 1 already exists"),
        ("lists.range(20).transformMapEntry(ix, v, {v: ix}).size()", "20"),
    ]);
}

#[test]
fn conversions_say_what_they_cannot_read() {
    check(&[
        ("int('42')", "42"),
        ("int(3.9)", "3"),
        ("int(-3.9)", "-3"),
        ("int(5u)", "5"),
        ("int(duration('1s'))", "1000000000"),
        ("int(timestamp('1970-01-01T00:01:00Z'))", "60"),
        ("int('x')", "error: type conversion error from 'string' to 'int'"),
        ("int(1e20)", "error: integer overflow"),
        ("int(18446744073709551615u)", "error: integer overflow"),
        ("uint(5)", "5u"),
        ("uint(-5)", "error: unsigned integer overflow"),
        ("uint('7')", "7u"),
        ("uint(2.7)", "2u"),
        ("uint(-1.0)", "error: unsigned integer overflow"),
        ("double(3)", "3.0"),
        ("double('2.5')", "2.5"),
        ("double(7u)", "7.0"),
        ("double('x')", "error: type conversion error from 'string' to 'double'"),
        ("string(1)", "\"1\""),
        ("string(1u)", "\"1\""),
        ("string(1.5)", "\"1.5\""),
        ("string(1e30)", "\"1e+30\""),
        ("string(true)", "\"true\""),
        ("string(b'abc')", "\"abc\""),
        (r"string(b'\xff')", "error: invalid UTF-8 in bytes, cannot convert to string"),
        ("string(duration('90m'))", "\"5400s\""),
        ("string(duration('1500ms'))", "\"1.5s\""),
        ("string(timestamp('2020-01-02T03:04:05.678Z'))", "\"2020-01-02T03:04:05.678Z\""),
        ("bool('true')", "true"),
        ("bool('f')", "false"),
        ("bool('yes')", "error: type conversion error from 'string' to 'bool'"),
        ("bytes('a\u{e9}')", "b\"a\\xc3\\xa9\""),
        ("bytes(s)", "b\"h\\xc3\\xa9llo\""),
        ("dyn(1)", "1"),
        ("type(1.0)", "double"),
        ("duration(s)", "error: type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("timestamp(0)", "timestamp(\"1970-01-01T00:00:00Z\")"),
        ("timestamp(253402300800)", "error: timestamp overflow"),
        ("timestamp('2020-01-01T01:00:00+01:00')", "timestamp(\"2020-01-01T00:00:00Z\")"),
    ]);
}

#[test]
fn times_have_parts_in_zones() {
    let t = "timestamp('2023-12-25T23:30:15.250Z')";
    let rows = [
        ("getFullYear()", "2023"),
        ("getMonth()", "11"),
        ("getDate()", "25"),
        ("getDayOfMonth()", "24"),
        ("getDayOfWeek()", "1"),
        ("getDayOfYear()", "358"),
        ("getHours()", "23"),
        ("getMinutes()", "30"),
        ("getSeconds()", "15"),
        ("getMilliseconds()", "250"),
        ("getHours('+02:00')", "1"),
        ("getDate('+02:00')", "26"),
        ("getHours('-08:30')", "15"),
        ("getMinutes('-08:30')", "0"),
        ("getHours('America/New_York')", "18"),
        ("getHours('UTC')", "23"),
        ("getHours('Nowhere/Else')", "error: unknown time zone Nowhere/Else"),
    ];
    for (call, expected) in rows {
        assert_eq!(run(&format!("{t}.{call}")), expected, "{call}");
    }
    check(&[
        // Beyond the last year of UTC.
        ("timestamp('9999-12-31T23:59:59Z').getFullYear('+02:00')", "10000"),
        ("timestamp('9999-12-31T23:59:59Z').getDate('+02:00')", "1"),
        ("timestamp('9999-12-31T23:59:59Z').getDayOfWeek('+02:00')", "6"),
        ("timestamp('0001-01-01T00:00:00Z').getFullYear('-02:00')", "0"),
        ("duration('1h30m').getHours()", "1"),
        ("duration('1h30m').getMinutes()", "90"),
        ("duration('90s').getSeconds()", "90"),
        ("duration('1.5s').getMilliseconds()", "1500"),
        ("duration('1h') + duration('30m')", "duration(\"5400s\")"),
        ("duration('1h') - duration('90m')", "duration(\"-1800s\")"),
        (
            "timestamp('2020-01-01T00:00:00Z') + duration('24h')",
            "timestamp(\"2020-01-02T00:00:00Z\")",
        ),
        (
            "duration('1s') + timestamp('2020-01-01T00:00:00Z')",
            "timestamp(\"2020-01-01T00:00:01Z\")",
        ),
        (
            "timestamp('2020-01-02T00:00:00Z') - timestamp('2020-01-01T00:00:00Z')",
            "duration(\"86400s\")",
        ),
        (
            "timestamp('2020-01-01T00:00:00Z') - duration('1s')",
            "timestamp(\"2019-12-31T23:59:59Z\")",
        ),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "error: timestamp overflow"),
        ("timestamp('0001-01-01T00:00:00Z') - duration('1s')", "error: timestamp overflow"),
    ]);
}

#[test]
fn optional_values_are_followed_or_not_there() {
    check(&[
        ("o.?name", "optional.of(\"web\")"),
        ("o.?gone", "optional.none()"),
        ("o.?gone.deeper", "optional.none()"),
        ("o.?labels.app", "optional.of(\"x\")"),
        ("o.?labels.gone", "optional.none()"),
        ("o.?labels.?app.orValue('z')", "\"x\""),
        ("o.?labels.?gone.orValue('z')", "\"z\""),
        ("o[?'name']", "optional.of(\"web\")"),
        ("l[?0]", "optional.of(1)"),
        ("l[?9]", "optional.none()"),
        ("l[?-1]", "optional.none()"),
        ("m[?'a'].value()", "1"),
        ("m[?'z'].hasValue()", "false"),
        ("m[?'z'].value()", "error: optional.none() dereference"),
        ("m.?a.or(m.?b)", "optional.of(1)"),
        ("m.?z.or(m.?b)", "optional.of(2)"),
        ("m.?z.or(m.?y).orValue(9)", "9"),
        ("maybe.value()", "5"),
        ("maybe.optMap(x, x + 1)", "optional.of(6)"),
        ("m.?z.optMap(x, x + 1)", "optional.none()"),
        ("m.?a.optFlatMap(x, m.?b)", "optional.of(2)"),
        ("m.?z.optFlatMap(x, m.?b)", "optional.none()"),
        ("optional.ofNonZeroValue(0)", "optional.none()"),
        ("optional.ofNonZeroValue('')", "optional.none()"),
        ("optional.ofNonZeroValue(3)", "optional.of(3)"),
        ("optional.ofNonZeroValue(optional.none())", "optional.of(optional.none())"),
        ("optional.of(null)", "optional.of(null)"),
        ("[?m.?a, ?m.?z]", "[1]"),
        ("{?'x': m.?a, ?'y': m.?z}", "{\"x\": 1}"),
        ("[1, 2].first()", "optional.of(1)"),
        ("[1, 2].last()", "optional.of(2)"),
        ("[].first()", "optional.none()"),
        ("optional.unwrap([optional.of(1), optional.none()])", "[1]"),
        ("[optional.none(), optional.of(2)].unwrapOpt()", "[2]"),
        ("has(o.?labels.app)", "true"),
        ("has(o.?gone.app)", "false"),
        ("optional.of([1, 2])[1]", "optional.of(2)"),
    ]);
}

#[test]
fn a_binding_that_is_first_used_inside_a_fold_leaves_its_variables_alone() {
    check(&[
        ("{'a': 1}.transformMap(k, v, v + 1).?a.optMap(x, [7].map(y, x + y))", "optional.of([9])"),
        (
            "{'a': 1}.map(k, k).first().optMap(x, [7, 8].filter(y, y > 7 && x == 'a'))",
            "optional.of([8])",
        ),
        ("[[1].map(z, z * 2)].first().optMap(x, [3, 4].map(y, x[0] + y))", "optional.of([5, 6])"),
        ("[5].first().optFlatMap(x, [1, 2].map(y, [x].map(z, z + y)).first())", "optional.of([6])"),
    ]);
}

#[test]
fn the_budget_ends_an_evaluation_and_nothing_absorbs_that() {
    let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let text = format!("[{0}].all(x, [{0}].all(y, x + y >= 0)) || true", many.join(","));
    let program = Env::extended().compile(&text).unwrap().program().unwrap();
    let evaluated = program.evaluate(&Bindings::new(), 1000);
    assert_eq!(evaluated.result.unwrap_err(), Error::CostExceeded);
    assert!(evaluated.cost <= 1010, "{}", evaluated.cost);
}

/// The deepest that one shape can be: `n` times `before` and `after` around `inner`, as long as that
/// compiles.
fn deepest(before: &str, inner: &str, after: &str) -> String {
    let nested = |n: usize| format!("{}{inner}{}", before.repeat(n), after.repeat(n));
    let compiles = |n: &usize| Env::extended().compile(&nested(*n)).is_ok();
    let n = (1..=300).rev().find(compiles).unwrap_or_else(|| panic!("{before} never compiles"));
    assert!(Env::extended().compile(&nested(300)).is_err(), "{before} has no bound");
    nested(n)
}

#[test]
fn what_is_as_deep_as_allowed_fits_in_a_small_stack() {
    let shapes = [
        ("[", "1", "]"),
        ("{'a': ", "1", "}"),
        ("(1 + ", "1", ")"),
        ("-(", "1", ")"),
        ("(true ? ", "1", " : 2)"),
        ("(false || true && 7 > 1 + 2 * -dyn(", "1", "))"),
        ("(false || true && 1 == 1 + 2 * size([", "1", "]))"),
        ("[1].all(x, ", "true", ")"),
        ("[1].exists_one(x, ", "true", ")"),
        ("[1].all(x, false || true && 1 == 1 && !!", "true", ")"),
        ("[1].map(x, 1 + 2 * ", "[1]", "[0])"),
        ("[1].map(x, ", "x", ")"),
        ("[1].filter(x, x == 1 && ", "true", ").size() > 0"),
        ("[1].sortBy(x, x + ", "1", ")[0]"),
        ("{'a': 1}.transformMap(k, v, ", "v", ")"),
        ("{'a': 1}.transformMapEntry(k, v, {k: ", "v", "})"),
        ("optional.of(1).optMap(x, 1 + ", "x", ").orValue(2)"),
        ("'%s'.format([", "1", "])"),
        ("dyn([", "1", "])[0]"),
    ];
    for (before, inner, after) in shapes {
        let all_of_it = move || {
            let checked = Env::extended().compile(&deepest(before, inner, after)).unwrap();
            let estimate = checked.estimate(&AnySize);
            assert!(estimate.min <= estimate.max);
            for program in [checked.program(), checked.program_unfolded()] {
                let program = program.unwrap();
                let evaluated = program.evaluate(&Bindings::new(), 100_000);
                assert!(evaluated.result.map_or(1, |it| it.to_string().len()) > 0);
            }
        };
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        thread.spawn(all_of_it).unwrap().join().unwrap();
    }
}

#[test]
fn what_is_cheap_may_not_make_much() {
    let large = "x".repeat(40_000);
    let rows = [
        format!("'{large}'.replace('x', '{large}')"),
        format!("lists.range(1000).map(x, '{large}').join('{large}')"),
        format!("'{large}'.split('').join('{large}')"),
        "lists.range(9999999)".to_owned(),
        format!("lists.range(9000).map(x, '{large}' + 'y')"),
        "[lists.range(1000)].map(x, lists.range(1000).map(y, x)).flatten().flatten()".to_owned(),
        "lists.range(100000).map(x, [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, \
         x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x])"
            .to_owned(),
    ];
    for text in rows {
        let program = Env::extended().compile(&text).unwrap().program().unwrap();
        let evaluated = program.evaluate(&Bindings::new(), u64::MAX);
        let result = evaluated.result.map(|it| it.size());
        assert_eq!(result, Err(Error::CostExceeded), "{}", &text[text.len() - 40..]);
    }
}

#[test]
fn macros_that_repeat_their_target_end() {
    let text = format!("optional.of(1){}", ".optMap(x, x)".repeat(60));
    let issues = Env::extended().compile(&text).unwrap_err().to_string();
    assert!(issues.contains("expression size exceeds limit: 500000 nodes"), "{issues}");
}
