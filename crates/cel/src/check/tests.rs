//! Expressions that are refused, and with which words; types of those that are not.

use std::sync::Arc;

use crate::{Env, Type, TypeProvider};

#[derive(Debug)]
struct Objects;

impl TypeProvider for Objects {
    fn find_type(&self, name: &str) -> Option<Type> {
        matches!(name, "Pod" | "pkg.Spec").then(|| Type::object(name))
    }

    fn find_field(&self, type_name: &str, field: &str) -> Option<Type> {
        match (type_name, field) {
            ("Pod", "name") => Some(Type::String),
            ("Pod", "replicas") => Some(Type::Int),
            ("Pod", "spec") => Some(Type::object("pkg.Spec")),
            ("pkg.Spec", "items") => Some(Type::list(Type::String)),
            ("pkg.Spec", "labels") => Some(Type::map(Type::String, Type::String)),
            _ => None,
        }
    }
}

fn env() -> Env {
    Env::extended()
        .provider(Arc::new(Objects))
        .variable("self", Type::object("Pod"))
        .variable("i", Type::Int)
        .variable("s", Type::String)
        .variable("d", Type::Dyn)
        .variable("a.b", Type::Int)
        .variable("t", Type::Timestamp)
}

/// Line, column and text of each issue.
#[track_caller]
fn check(rows: &[(&str, &[(u32, &str)])]) {
    let mut wrong = Vec::new();
    for (text, expected) in rows {
        let found: Vec<(u32, String)> = match env().compile(text) {
            Ok(checked) => vec![(0, format!("ok: {}", checked.output_type()))],
            Err(issues) => {
                issues.iter().map(|it| (it.position.column + 1, it.message.clone())).collect()
            }
        };
        let expected: Vec<(u32, String)> =
            expected.iter().map(|(column, what)| (*column, (*what).to_owned())).collect();
        if found != expected {
            wrong.push(format!("{text}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn names_must_be_known() {
    check(&[
        ("x", &[(1, "undeclared reference to 'x' (in container '')")]),
        ("x.y", &[(1, "undeclared reference to 'x' (in container '')")]),
        ("i + x", &[(5, "undeclared reference to 'x' (in container '')")]),
        ("f(1)", &[(2, "undeclared reference to 'f' (in container '')")]),
        ("i.f()", &[(4, "undeclared reference to 'f' (in container '')")]),
        ("self.nome", &[(5, "undefined field 'nome'")]),
        ("self.spec.x", &[(10, "undefined field 'x'")]),
        ("has(self.x)", &[(4, "undefined field 'x'")]),
        ("self.?x", &[(5, "undefined field 'x'")]),
        ("i.x", &[(2, "type 'int' does not support field selection")]),
        ("s.x.y", &[(2, "type 'string' does not support field selection")]),
        ("[1].x", &[(4, "type 'list(int)' does not support field selection")]),
        ("Nope{}", &[(5, "undeclared reference to 'Nope' (in container '')")]),
        ("int{}", &[(4, "'int' is not a message type")]),
        ("self{}", &[(5, "'Pod' is not a type")]),
        ("Pod{nome: 'x'}", &[(9, "undefined field 'nome'")]),
        (
            "Pod{name: 1}",
            &[(9, "expected type of field 'name' is 'string' but provided type is 'int'")],
        ),
        ("Pod{?name: 'x'}", &[(12, "expected type 'optional_type(string)' but found 'string'")]),
        (
            "x + y",
            &[
                (1, "undeclared reference to 'x' (in container '')"),
                (5, "undeclared reference to 'y' (in container '')"),
            ],
        ),
        (
            "l.all(x, y)",
            &[
                (1, "undeclared reference to 'l' (in container '')"),
                (10, "undeclared reference to 'y' (in container '')"),
            ],
        ),
        ("reverse", &[(1, "undeclared reference to 'reverse' (in container '')")]),
    ]);
}

#[test]
fn operands_must_fit() {
    check(&[
        ("1 + 'a'", &[(3, "found no matching overload for '_+_' applied to '(int, string)'")]),
        ("1 + 1u", &[(3, "found no matching overload for '_+_' applied to '(int, uint)'")]),
        ("1 + 1.0", &[(3, "found no matching overload for '_+_' applied to '(int, double)'")]),
        ("true + true", &[(6, "found no matching overload for '_+_' applied to '(bool, bool)'")]),
        ("'a' * 2", &[(5, "found no matching overload for '_*_' applied to '(string, int)'")]),
        ("-'a'", &[(1, "found no matching overload for '-_' applied to '(string)'")]),
        ("!1", &[(1, "found no matching overload for '!_' applied to '(int)'")]),
        ("1 == 'a'", &[(3, "found no matching overload for '_==_' applied to '(int, string)'")]),
        ("i != null", &[(3, "found no matching overload for '_!=_' applied to '(int, null)'")]),
        ("1 == 1.0", &[(3, "found no matching overload for '_==_' applied to '(int, double)'")]),
        ("1 < 'a'", &[(3, "found no matching overload for '_<_' applied to '(int, string)'")]),
        (
            "[1] < [2]",
            &[(5, "found no matching overload for '_<_' applied to '(list(int), list(int))'")],
        ),
        ("1 && true", &[(1, "expected type 'bool' but found 'int'")]),
        ("true || 'a'", &[(9, "expected type 'bool' but found 'string'")]),
        (
            "1 || 2",
            &[
                (1, "expected type 'bool' but found 'int'"),
                (6, "expected type 'bool' but found 'int'"),
            ],
        ),
        (
            "1 ? 2 : 3",
            &[(3, "found no matching overload for '_?_:_' applied to '(int, int, int)'")],
        ),
        (
            "true ? 1 : 'a'",
            &[(6, "found no matching overload for '_?_:_' applied to '(bool, int, string)'")],
        ),
        ("1 in 2", &[(3, "found no matching overload for '@in' applied to '(int, int)'")]),
        (
            "'a' in [1]",
            &[(5, "found no matching overload for '@in' applied to '(string, list(int))'")],
        ),
        (
            "[1]['a']",
            &[(4, "found no matching overload for '_[_]' applied to '(list(int), string)'")],
        ),
        (
            "{'a': 1}[1]",
            &[(9, "found no matching overload for '_[_]' applied to '(map(string, int), int)'")],
        ),
        ("i[0]", &[(2, "found no matching overload for '_[_]' applied to '(int, int)'")]),
    ]);
}

#[test]
fn arguments_must_fit() {
    check(&[
        ("size(1)", &[(5, "found no matching overload for 'size' applied to '(int)'")]),
        ("i.size()", &[(7, "found no matching overload for 'size' applied to 'int.()'")]),
        (
            "s.startsWith(1)",
            &[(13, "found no matching overload for 'startsWith' applied to 'string.(int)'")],
        ),
        (
            "startsWith(s, s)",
            &[(11, "found no matching overload for 'startsWith' applied to '(string, string)'")],
        ),
        (
            "s.contains()",
            &[(11, "found no matching overload for 'contains' applied to 'string.()'")],
        ),
        ("int([1])", &[(4, "found no matching overload for 'int' applied to '(list(int))'")]),
        ("bool(1)", &[(5, "found no matching overload for 'bool' applied to '(int)'")]),
        (
            "t.getHours(1)",
            &[(11, "found no matching overload for 'getHours' applied to 'timestamp.(int)'")],
        ),
        ("t - 1", &[(3, "found no matching overload for '_-_' applied to '(timestamp, int)'")]),
        (
            "duration('1s') * 2",
            &[(16, "found no matching overload for '_*_' applied to '(duration, int)'")],
        ),
        ("self + self", &[(6, "found no matching overload for '_+_' applied to '(Pod, Pod)'")]),
        (
            "self.spec == self",
            &[(11, "found no matching overload for '_==_' applied to '(pkg.Spec, Pod)'")],
        ),
        (
            "optional.of(1).orValue('a')",
            &[(
                23,
                "found no matching overload for 'orValue' applied to 'optional_type(int).(string)'",
            )],
        ),
        (
            "self.?replicas + 1",
            &[(16, "found no matching overload for '_+_' applied to '(optional_type(int), int)'")],
        ),
        ("['a'].sum()", &[(10, "undeclared reference to 'sum' (in container '')")]),
        (
            "sets.contains([1], ['a'])",
            &[(
                14,
                "found no matching overload for 'sets.contains' applied to '(list(int), list(string))'",
            )],
        ),
        ("[1].join()", &[(9, "found no matching overload for 'join' applied to 'list(int).()'")]),
    ]);
}

#[test]
fn folds_need_a_range_and_a_predicate() {
    check(&[
        (
            "i.all(x, true)",
            &[(
                1,
                "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
            )],
        ),
        (
            "s.map(x, x)",
            &[(
                1,
                "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
            )],
        ),
        (
            "self.exists(x, true)",
            &[(
                1,
                "expression of type 'Pod' cannot be range of a comprehension (must be list, map, or dynamic)",
            )],
        ),
        ("[1].all(x, x)", &[(12, "expected type 'bool' but found 'int'")]),
        ("[1].exists(x, 'a')", &[(15, "expected type 'bool' but found 'string'")]),
        (
            "[1].all(x, x == 'a')",
            &[(14, "found no matching overload for '_==_' applied to '(int, string)'")],
        ),
        (
            "[1].filter(x, x)",
            &[(
                11,
                "found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'",
            )],
        ),
        (
            "{'a': 1}.all(k, k > 1)",
            &[(19, "found no matching overload for '_>_' applied to '(string, int)'")],
        ),
        ("[1].all(x.y, true)", &[(10, "argument must be a simple name")]),
        ("[1].map(1, true)", &[(9, "argument is not an identifier")]),
        ("[1].all(x, x, true)", &[(12, "duplicate variable name: x")]),
        ("[1].all(__result__, true)", &[(9, "iteration variable overwrites accumulator variable")]),
        ("has(1)", &[(5, "invalid argument to has() macro")]),
        ("has(i)", &[(5, "invalid argument to has() macro")]),
        (
            "optional.of(1).optMap(1, 2)",
            &[(23, "optMap() variable name must be a simple identifier")],
        ),
    ]);
}

#[test]
fn literals_must_be_valid_and_of_one_type() {
    check(&[
        ("[1, 'a']", &[(5, "expected type 'int' but found 'string'")]),
        ("[1, dyn(2)]", &[(8, "expected type 'int' but found 'dyn'")]),
        ("{'a': 1, 'b': 'c'}", &[(15, "expected type 'int' but found 'string'")]),
        ("{'a': 1, 2: 3}", &[(10, "expected type 'string' but found 'int'")]),
        ("duration('x')", &[(10, "invalid duration argument")]),
        ("timestamp('2020')", &[(11, "invalid timestamp argument")]),
        ("s.matches('[')", &[(11, "invalid matches argument")]),
        (
            "'%d'.format(['a'])",
            &[(
                14,
                "error during formatting: decimal clause can only be used on integers, was given string",
            )],
        ),
        (
            "'%d'.format([1, 2])",
            &[(12, "too many arguments supplied to string.format (expected 1, got 2)")],
        ),
        ("'%d %d'.format([1])", &[(15, "index 1 out of range")]),
        (
            "'%z'.format([1])",
            &[(12, "could not parse formatting clause: unrecognized formatting clause \"z\"")],
        ),
        ("'%s %d'.format(['a', 1])", &[(0, "ok: string")]),
    ]);
}

#[test]
fn types_are_found_out() {
    let rows = [
        ("1", "int"),
        ("null", "null"),
        ("[]", "list(dyn)"),
        ("[1]", "list(int)"),
        ("{}", "map(dyn, dyn)"),
        ("{'a': [1u]}", "map(string, list(uint))"),
        ("type(1)", "type(int)"),
        ("int", "type(int)"),
        ("self", "Pod"),
        ("self.spec.items[0]", "string"),
        ("self.?spec.items", "optional_type(list(string))"),
        ("self.spec.labels['x']", "string"),
        ("self.spec.labels.x", "string"),
        ("d.x.y", "dyn"),
        ("d + 1", "int"),
        ("d + d", "dyn"),
        ("d.map(x, x)", "list(dyn)"),
        ("self.spec.items.map(x, x.size())", "list(int)"),
        ("self.spec.labels.map(k, k)", "list(string)"),
        ("self.spec.items.transformMap(i, v, v)", "map(int, string)"),
        ("a.b + 1", "int"),
        ("Pod{name: 'x', replicas: 3}", "Pod"),
        ("Pod{name: 'x'}.name", "string"),
        ("pkg.Spec{items: ['a']}", "pkg.Spec"),
        ("self == null", "bool"),
        ("t - t", "duration"),
        ("t + duration('1s')", "timestamp"),
        ("1 < 1.5", "bool"),
        ("[1, 2].sort()", "list(int)"),
        ("optional.of(1).or(optional.none())", "optional_type(int)"),
        ("optional.none().orValue(1)", "int"),
        ("true ? [] : [1]", "list(int)"),
        ("[1].filter(x, x > 0)", "list(int)"),
        ("[] + [1]", "list(int)"),
        ("dyn(1)", "dyn"),
        ("self.spec.items.sortBy(e, e.size())", "list(string)"),
    ];
    for (text, expected) in rows {
        let checked = env().compile(text).unwrap_or_else(|issues| panic!("{text}: {issues}"));
        assert_eq!(checked.output_type().to_string(), expected, "{text}");
    }
}

#[test]
fn names_are_looked_up_in_the_container() {
    let env = env().container("pkg");
    assert_eq!(env.compile("Spec{}").unwrap().output_type().to_string(), "pkg.Spec");
    assert_eq!(env.compile("self.name").unwrap().output_type(), &Type::String);
    let issues = env.compile("y").unwrap_err();
    let expected =
        "ERROR: <input>:1:1: undeclared reference to 'y' (in container 'pkg')\n | y\n | ^";
    assert_eq!(issues.to_string(), expected);
}

#[test]
fn mentions_tells_which_variables_are_used() {
    let checked = env().compile("self.name == s && [1].all(i, i > 0)").unwrap();
    assert!(checked.mentions("self") && checked.mentions("s") && !checked.mentions("t"));
}
