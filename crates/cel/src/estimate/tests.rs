//! Costs, estimated and counted. Rows without a note have upstream's numbers
//! (`apiserver/pkg/cel/library/cost_test.go`, `schema/cel/celcoststability_test.go`, v1.36).

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{Operand, Sizer};
use crate::{
    Bindings, Env, Error, ListKind, Shape, SizeEstimate, Strictness, Text, Type, TypeProvider,
    UNTYPED, Value, from_json,
};

/// Strings and bytes are at most 12 long; the rest is not known.
struct Twelve;

impl Sizer for Twelve {
    fn size(&self, operand: &Operand<'_>) -> Option<SizeEstimate> {
        matches!(operand.of_type, Type::String | Type::Bytes).then_some(SizeEstimate::new(0, 12))
    }
}

/// Expression, least and most by estimate, and what it cost without folding.
#[track_caller]
fn check(rows: &[(&str, u64, u64, u64)]) {
    let env = Env::extended().strictness(Strictness::NONE);
    let mut wrong = Vec::new();
    for (text, min, max, counted) in rows {
        let checked = env.compile(text).unwrap_or_else(|issues| panic!("{issues}"));
        let estimate = checked.estimate(&Twelve);
        let program = checked.program_unfolded().unwrap();
        let evaluated = program.evaluate(&Bindings::new(), u64::MAX);
        let found = (estimate.min, estimate.max, evaluated.cost);
        if found != (*min, *max, *counted) {
            wrong.push(format!("{text}: expected {:?}, found {found:?}", (min, max, counted)));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn strings_cost_what_they_are_long() {
    check(&[
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3, 3, 3),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 7, 9, 9),
        ("'ABCDEFGHIJ abcdefghij'.upperAscii()", 3, 3, 3),
        ("'ABCDEFGHIJ abcdefghij'.upperAscii() == 'abcdefghij ABCDEFGHIJ'.upperAscii()", 7, 9, 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij')", 3, 3, 3),
        (
            "strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')",
            7,
            11,
            9,
        ),
        ("'abc 123 def 123'.replace('123', '456')", 3, 3, 3),
        ("'abc 123 def 123'.replace('', 'x')", 3, 3, 3),
        ("'abc 123 def 123'.replace('123', '')", 3, 3, 3),
        ("'abc 123 def 123'.replace('123', '456', 1)", 3, 3, 3),
        ("'abc 123 def 123'.split(' ')", 3, 3, 3),
        ("'abc 123 def 123'.split(' ', 1)", 3, 3, 3),
        ("'abc 123 def 123'.substring(5)", 2, 2, 2),
        ("'abc 123 def 123'.substring(5, 8)", 2, 2, 2),
        ("'  abc 123 def 123  '.trim()", 2, 2, 2),
        ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')", 11, 23, 15),
        ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join()", 10, 22, 13),
    ]);
}

#[test]
fn sets_cost_the_product_of_their_sizes() {
    check(&[
        ("sets.contains([], [])", 21, 21, 21),
        ("sets.contains([1], [])", 21, 21, 21),
        ("sets.contains([1], [1])", 22, 22, 22),
        ("sets.contains([1], [1, 1])", 23, 23, 23),
        ("sets.contains([1, 2, 3, 4], [2, 3])", 29, 29, 29),
        ("sets.contains([1], [1.0, 1])", 23, 23, 23),
        ("sets.contains([1, 2.0, 3u], [1.0, 2u, 3])", 30, 30, 30),
        ("sets.contains([[1], [2, 3]], [[2, 3.0]])", 53, 53, 53),
        ("!sets.contains([1], [2])", 23, 23, 23),
        ("!sets.contains([1], ['1', 1])", 24, 24, 24),
        ("sets.equivalent([], [])", 21, 21, 21),
        ("sets.equivalent([1], [1])", 23, 23, 23),
        ("sets.equivalent([1, 2, 3], [3u, 2.0, 1])", 39, 39, 39),
        ("sets.equivalent([[1.0], [2, 3]], [[1], [2, 3.0]])", 69, 69, 69),
        ("!sets.equivalent([1, 2], [1u, 2, 2.3])", 34, 34, 34),
        ("sets.intersects([1, 2], [2u, 2, 2.0])", 27, 27, 27),
        ("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3.0]])", 65, 65, 65),
        ("!sets.intersects([], [])", 22, 22, 22),
    ]);
}

#[test]
fn folds_cost_their_steps() {
    check(&[
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 37, 41, 41),
        ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", 39, 43, 40),
        ("{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", 38, 40, 40),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", 71, 71, 71),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 67, 75, 75),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131, 131, 131),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, v < 5, {k: v + 1})", 67, 135, 135),
        ("[1, 2].all(i, v, v > 0)", 17, 21, 21),
        ("[1, 2].exists(i, v, v > 0)", 19, 23, 20),
        ("[1, 2].existsOne(i, v, v > 0)", 18, 20, 20),
        ("[1, 2].transformList(i, v, v + 1)", 49, 49, 49),
        ("[1, 2].transformList(i, v, v < 5, v + 1)", 27, 53, 53),
        // By the rules, without a row of upstream's.
        ("[1, 2].map(x, x)", 47, 47, 47),
        ("[1, 2].filter(x, x > 0)", 27, 51, 51),
        ("[1, 2].all(x, x > 0)", 17, 21, 21),
    ]);
}

#[test]
fn plain_expressions_cost_by_the_table() {
    // By the rules of cel-go's checker/cost.go and interpreter/runtimecost.go.
    check(&[
        ("1", 0, 0, 0),
        ("1 + 2", 1, 1, 1),
        ("1 + 2 * 3", 2, 2, 2),
        ("[1, 2, 3]", 10, 10, 10),
        ("{'a': 1}", 30, 30, 30),
        ("[[1], [2]]", 30, 30, 30),
        ("1 == 1", 1, 1, 1),
        ("'abc' == 'abd'", 1, 1, 1),
        ("'0123456789abc' == '0123456789abc'", 1, 2, 2),
        ("'abc' < 'abd'", 1, 1, 1),
        ("'abc' + 'def'", 1, 1, 1),
        ("'0123456789' + '0123456789a'", 3, 3, 3),
        ("b'abc' + b'def'", 1, 1, 1),
        ("[1] + [2]", 21, 21, 21),
        ("true && false", 0, 0, 0),
        ("1 < 2 && 2 < 3", 1, 2, 2),
        ("2 < 1 && 2 < 3", 1, 2, 1),
        ("1 < 2 || 2 < 3", 1, 2, 1),
        ("true ? 1 + 1 : 1 + 1 + 1", 1, 2, 1),
        ("!true", 1, 1, 1),
        ("'abc'.contains('b')", 1, 1, 1),
        ("'0123456789abc'.contains('0123456789a')", 4, 4, 4),
        ("'abc'.startsWith('ab')", 1, 1, 1),
        ("'abc'.endsWith('0123456789a')", 2, 2, 1),
        ("'0123456789a'.startsWith('0')", 1, 1, 2),
        ("matches('0123456789', '^[a-z]+$')", 1, 1, 1),
        ("'abc'.matches('^[a-z]+$')", 2, 2, 2),
        ("'0123456789'.matches('^[a-z]+$')", 4, 4, 4),
        ("1 in [1, 2, 3]", 13, 13, 13),
        ("'a' in {'a': 1}", 31, 31, 31),
        ("size('abc')", 1, 1, 1),
        ("int('12')", 1, 1, 1),
        ("bytes('0123456789a')", 2, 2, 2),
        ("string(b'0123456789a')", 2, 2, 2),
        ("dyn(1)", 1, 1, 1),
        ("duration('1s')", 1, 1, 1),
        ("'%s'.format(['abc'])", 11, 11, 11),
        // A selection from what is no path counts once more while it runs.
        ("[1, 2][0]", 11, 11, 12),
        ("{'a': 1}.a", 31, 31, 32),
        ("has({'a': 1}.a)", 30, 30, 31),
        ("lists.range(4)", 15, 15, 15),
        ("[1, 2, 3].reverse()", 24, 24, 24),
        ("[1, 2, 3].slice(0, 2)", 23, 23, 23),
        ("[[1], [2]].flatten()", 43, 43, 43),
        ("[3, 1, 2].sort()", 39, 39, 39),
        ("['c', 'a'].sort()", 30, 30, 29),
        ("[1, 2].distinct()", 29, 29, 29),
    ]);
}

/// An object with typed fields.
#[derive(Debug)]
struct Fields(Vec<(&'static str, Type)>);

impl TypeProvider for Fields {
    fn find_type(&self, name: &str) -> Option<Type> {
        (name == "Self").then(|| Type::object("Self"))
    }

    fn find_field(&self, _type_name: &str, field: &str) -> Option<Type> {
        self.0.iter().find(|(name, _)| *name == field).map(|(_, it)| it.clone())
    }
}

/// A list of JSON that is a set, or a map by `k`; above it, fields that are such lists.
#[derive(Debug)]
struct Lists(bool);

impl Shape for Lists {
    fn get<'a>(
        &'a self,
        object: &'a serde_json::Map<String, Json>,
        name: &str,
    ) -> Result<Option<Value<'a>>, Error> {
        object.get(name).map(|json| from_json(json, self)).transpose()
    }

    fn item(&self) -> &dyn Shape {
        if self.0 { &UNTYPED } else { self }
    }

    fn list_kind(&self) -> ListKind<'_> {
        static KEYS: std::sync::LazyLock<Vec<String>> =
            std::sync::LazyLock::new(|| vec!["k".to_owned()]);
        if self.0 { ListKind::Set } else { ListKind::Map(&KEYS) }
    }

    fn name<'a>(&'a self, key: &'a str, _value: &Json) -> Option<Text<'a>> {
        Some(Text::Borrowed(key))
    }
}

/// Rules over `self`, which must hold, and what they cost with folding.
#[track_caller]
fn check_self(
    json: Json,
    shape: &dyn Shape,
    fields: &[(&'static str, Type)],
    rows: &[(&str, u64)],
) {
    let env = Env::extended()
        .provider(Arc::new(Fields(fields.to_vec())))
        .variable("self", Type::object("Self"));
    let mut wrong = Vec::new();
    for (text, expected) in rows {
        let checked = env.compile(text).unwrap_or_else(|issues| panic!("{issues}"));
        let program = checked.program().unwrap();
        let variables = Bindings::new().with("self", from_json(&json, shape).unwrap());
        let evaluated = program.evaluate(&variables, u64::MAX);
        let holds = evaluated.result.as_ref().is_ok_and(|it| it.as_bool() == Some(true));
        if !holds || evaluated.cost != *expected {
            let (cost, result) = (evaluated.cost, evaluated.result);
            wrong.push(format!("{text}: expected {expected}, found {cost}, {result:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn rules_over_scalars_cost_as_upstream() {
    let json = json!({"i": 5, "d": 10.0, "j": 5, "s": "Rook takes \u{1f451}", "e": "Pending"});
    let fields = [
        ("i", Type::Int),
        ("j", Type::Int),
        ("d", Type::Double),
        ("s", Type::String),
        ("e", Type::String),
    ];
    check_self(
        json,
        &UNTYPED,
        &fields,
        &[
            ("self.i == self.j", 5),
            ("type(self.i) == int", 4),
            ("self.i + 1 == 5 + 1", 5),
            ("double(self.i) < self.d", 6),
            ("self.i < int(self.d)", 6),
            ("double(5) < 10.0", 1),
            ("5 < int(10.0)", 1),
            ("double(self.i) < 10.0", 4),
            ("self.s.startsWith('Rook')", 4),
            ("!self.s.startsWith('knight')", 5),
            ("self.s.matches('^[^0-9]*$')", 8),
            ("!self.s.matches('^[0-9]*$')", 7),
            ("type(self.s) == string", 4),
            ("size(self.s) == 12", 4),
            ("self.s.charAt(3) == 'k'", 4),
            ("self.s.indexOf('o') == 1", 4),
            ("self.s.indexOf('o', 2) == 2", 4),
            ("self.s.replace(' ', 'x') == 'Rookxtakesx\u{1f451}'", 7),
            ("self.s.replace(' ', 'x', 1) == 'Rookxtakes \u{1f451}'", 7),
            ("self.s.split(' ') == ['Rook', 'takes', '\u{1f451}']", 6),
            ("self.s.split(' ', 2) == ['Rook', 'takes \u{1f451}']", 6),
            ("self.s.substring(5) == 'takes \u{1f451}'", 5),
            ("self.s.substring(0, 4) == 'Rook'", 5),
            ("self.s.substring(4, 10).trim() == 'takes'", 6),
            ("self.s.upperAscii() == 'ROOK TAKES \u{1f451}'", 6),
            ("self.s.lowerAscii() == self.s.lowerAscii()", 10),
            (
                "'%d %s %f %s %s'.format([1, 'abc', 1.0, duration('1m'), \
                 timestamp('2000-01-01T00:00:00.000Z')]) == '1 abc 1.000000 60s 2000-01-01T00:00:00Z'",
                6,
            ),
            ("'%e'.format([3.14]) == '3.140000\u{d7}10\u{2070}\u{2070}'", 3),
            ("'%o %o %o'.format([7, 8, 9]) == '7 10 11'", 2),
            ("'%b %b %b'.format([7, 8, 9]) == '111 1000 1001'", 3),
            ("self.e == 'Pending'", 3),
            ("self.e in ['Pending', 'Available']", 2),
        ],
    );
}

#[test]
fn rules_over_lists_and_maps_cost_as_upstream() {
    let json = json!({"l": [1, 2, 3], "l2": [1, 2, 3], "val": {"b": 1, "d": 2}, "a": {"b": 1},
        "items": [{"k": "a1", "v": "b1"}, {"k": "a2", "v": "b2"}, {"k": "a3", "v": "b3", "v2": "z"}]});
    let texts = Type::map(Type::String, Type::String);
    let fields = [
        ("l", Type::list(Type::Int)),
        ("l2", Type::list(Type::Int)),
        ("val", Type::map(Type::String, Type::Int)),
        ("a", Type::map(Type::String, Type::Int)),
        ("items", Type::list(texts)),
    ];
    check_self(
        json,
        &UNTYPED,
        &fields,
        &[
            ("self.l == self.l2", 5),
            ("1 in self.l", 5),
            ("self.l2[0] in self.l", 8),
            ("!(0 in self.l)", 6),
            ("self.l + self.l2 == [1, 2, 3, 1, 2, 3]", 6),
            ("self.l + [4, 5] == [1, 2, 3, 4, 5]", 4),
            ("has(self.l)", 1),
            ("has(self.l) && has(self.l2)", 2),
            ("has(self.a.b)", 2),
            ("!('a' in self.val)", 4),
            ("'b' in self.val", 3),
            ("!has(self.val.a)", 3),
            ("has(self.val.b)", 2),
            ("self.val.all(k, self.val[k] > 0)", 17),
            ("!self.val.exists(k, self.val[k] == 3)", 20),
            ("self.val.exists_one(k, self.val[k] == 2)", 14),
            ("!self.val.exists_one(k, self.val[k] > 0)", 17),
            ("size(self.val) == 2", 4),
            ("size(self.val.filter(k, self.val[k] > 1)) == 1", 26),
            ("self.val.all(k, v, v > 0)", 13),
            ("!self.val.exists(k, v, v == 3)", 16),
            ("self.val.existsOne(k, v, v == 2)", 10),
            ("self.val.transformMap(k, v, v > 1, v + 1).size() == 1", 14),
            ("self.val.transformMap(k, v, v + 1).size() == 2", 15),
            ("self.val.transformMapEntry(k, v, v > 1, {k + '2': v + 1}).size() == 1", 45),
            ("self.val.transformMapEntry(k, v, {k + '2': v + 1}).size() == 2", 77),
            ("has(self.items[0].v)", 3),
            ("self.items.all(m, m.k.startsWith('a'))", 21),
            ("self.items.all(m, !has(m.v2) || m.v2 == 'z')", 21),
            ("self.items.exists(m, m.k.endsWith('1'))", 13),
            ("self.items.exists_one(m, m.k == 'a3')", 15),
            ("!self.items.all(m, m.k.endsWith('1'))", 18),
            ("!self.items.exists(m, m.v == 'x')", 25),
            ("!self.items.exists_one(m, m.k.startsWith('a'))", 20),
            ("size(self.items.filter(m, m.k == 'a1')) == 1", 27),
            ("self.items.exists(m, m.k == 'a1' && m.v == 'b1')", 16),
            ("self.items.map(m, m.v).exists(v, v == 'b1')", 55),
            ("self.items.exists(m, has(m.v2) && m.v2 == 'z')", 21),
            ("!self.items.all(m, has(m.v2) && m.v2 != 'z')", 10),
            ("self.items.exists_one(m, has(m.v2) && m.v2 == 'z')", 12),
            ("self.items.filter(m, has(m.v2) && m.v2 == 'z').size() == 1", 24),
            ("self.items.map(m, has(m.v2) && m.v2 == 'z', m.v2).size() == 1", 25),
            ("self.items.filter(m, has(m.v2) && m.v2 == 'z').map(m, m.v2).size() == 1", 39),
            ("self.items.exists(m, m.v2 == 'z')", 24),
            ("!self.items.all(m, m.v2 != 'z')", 22),
            ("self.items.transformList(i, m, has(m.v2) && m.v2 == 'z', m.v2).size() == 1", 25),
            ("self.items.transformList(i, m, m.v).size() == 3", 47),
        ],
    );
}

#[test]
fn nested_folds_cost_as_upstream() {
    let json = json!({"mm": {"x": {"y": "b"}}, "lm": [{"z": "g"}], "ll": [["e"]]});
    let texts = || Type::map(Type::String, Type::String);
    let fields = [
        ("mm", Type::map(Type::String, texts())),
        ("lm", Type::list(texts())),
        ("ll", Type::list(Type::list(Type::String))),
    ];
    check_self(
        json,
        &UNTYPED,
        &fields,
        &[
            ("self.mm['x']['y'] == 'b'", 5),
            ("self.lm[0]['z'] == 'g'", 5),
            ("self.mm.map(k, k).map(k, k).size() == 1", 32),
            ("self.lm.map(e, e).map(e, e).size() == 1", 32),
            ("self.mm.map(k, self.mm[k].map(m, m)).size() == 1", 34),
            ("self.lm.map(e, e.map(m, m)).size() == 1", 32),
            ("self.ll.map(e, e.map(e, e)).size() == 1", 32),
        ],
    );
}

#[test]
fn optional_values_and_list_functions_cost_as_upstream() {
    let json = json!({"obj": {"field": "a"}, "m": {"k": "v"}, "l": ["a"]});
    let texts = || Type::map(Type::String, Type::String);
    let fields = [("obj", texts()), ("m", texts()), ("l", Type::list(Type::String))];
    check_self(
        json,
        &UNTYPED,
        &fields,
        &[
            ("optional.of('a') != optional.of('b')", 3),
            ("optional.of('a') != optional.none()", 3),
            ("optional.of('a').hasValue()", 2),
            ("optional.of('a').or(optional.of('a')).hasValue()", 2),
            ("optional.none().or(optional.of('a')).hasValue()", 3),
            ("optional.of('a').optMap(v, v == 'value').hasValue()", 8),
            ("self.obj.?field == optional.of('a')", 5),
            ("self.obj.?absentField == optional.none()", 4),
            ("self.obj.?field.orValue('v') == 'a'", 4),
            ("self.m[?'k'] == optional.of('v')", 5),
            ("self.l[?0] == optional.of('a')", 5),
            ("optional.ofNonZeroValue(1).hasValue()", 2),
            ("lists.range(4) == [0,1,2,3]", 16),
            ("lists.range(0) == []", 11),
            ("[5,1,2,3].reverse() == [3,2,1,5]", 16),
            ("[].reverse() == []", 11),
            ("[1].reverse() == [1]", 13),
            ("[false, true, true].reverse().reverse() == [false, true, true]", 29),
            ("[1,2,3,4].slice(0, 4) == [1,2,3,4]", 16),
            ("[1,2,3,4].slice(0, 0) == []", 11),
            ("[1,2,3,4].slice(1, 3) == [2, 3]", 14),
            ("dyn([]).flatten() == []", 11),
            ("dyn([1,2,3,4]).flatten() == [1,2,3,4]", 16),
            ("[].sort() == []", 11),
            ("[1].sort() == [1]", 14),
            ("[4, 3, 2, 1].sort() == [1, 2, 3, 4]", 44),
            ("['d', 'a', 'b', 'c'].sort() == ['a', 'b', 'c', 'd']", 45),
            ("[].sortBy(e, e) == []", 14),
            ("['a'].sortBy(e, e) == ['a']", 30),
            ("[-3, 1, -5, -2, 4].sortBy(e, -(e * e)) == [-5, 4, -3, -2, 1]", 145),
            ("[-3, 1, -5, -2, 4].map(e, e * 2).sortBy(e, -(e * e)) == [-10, 8, -6, -4, 2]", 216),
            ("lists.range(3).sortBy(e, -e) == [2, 1, 0]", 89),
            (
                "['a', 'c', 'b', 'first'].sortBy(e, e == 'first' ? '' : e) == ['first', 'a', 'b', 'c']",
                104,
            ),
            ("[].distinct() == []", 11),
            ("[1].distinct() == [1]", 14),
            ("[-2, 5, -2, 1, 1, 5, -2, 1].distinct() == [-2, 5, 1]", 140),
            ("['c', 'a', 'a', 'b', 'a', 'b', 'c', 'c'].distinct() == ['c', 'a', 'b']", 146),
            ("[[1], [1], [2]].distinct() == [[1], [2]]", 30),
        ],
    );
}

#[test]
fn sets_and_maps_of_json_compare_and_join_by_their_kind() {
    let json = json!({"val1": ["a", "b", "c"], "val2": ["a", "c", "b"]});
    let list = || Type::list(Type::String);
    check_self(
        json,
        &Lists(true),
        &[("val1", list()), ("val2", list())],
        &[
            ("self.val1 == ['c', 'b', 'a']", 3),
            ("self.val1 == self.val2", 5),
            ("'a' in self.val1", 5),
            ("self.val2[0] in self.val1", 8),
            ("self.val1 + self.val2 == ['a', 'b', 'c']", 6),
            ("self.val1 + ['c', 'd'] == ['a', 'b', 'c', 'd']", 4),
            ("sets.contains(self.val1, ['a'])", 6),
            ("sets.equivalent(self.val1, ['a', 'b', 'c'])", 21),
            ("sets.intersects(self.val1, ['a'])", 6),
        ],
    );
    let json = json!({
        "x": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}],
        "y": [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}],
        "z": [{"k": "b", "v": "3"}, {"k": "a", "v": "1"}],
    });
    let list = || Type::list(Type::map(Type::String, Type::String));
    check_self(
        json,
        &Lists(false),
        &[("x", list()), ("y", list()), ("z", list())],
        &[
            ("self.x == self.y", 5),
            ("self.x != self.z", 5),
            ("self.z == self.x + self.z", 8),
            ("self.x == [self.x[1], self.x[0]]", 19),
        ],
    );
}

/// Sizes by path, as a schema gives them.
struct Paths(&'static [(&'static str, u64)]);

impl Sizer for Paths {
    fn size(&self, operand: &Operand<'_>) -> Option<SizeEstimate> {
        let path = operand.path.join(".");
        let found = self.0.iter().find(|(known, _)| *known == path);
        found.map(|(_, max)| SizeEstimate::new(0, *max))
    }
}

#[test]
fn sizes_are_found_by_path() {
    let texts = Type::list(Type::String);
    let env = Env::extended()
        .provider(Arc::new(Fields(vec![
            ("list", texts.clone()),
            ("name", Type::String),
            ("map", Type::map(Type::String, texts)),
        ])))
        .variable("self", Type::object("Self"));
    let sizer = Paths(&[
        ("self.list", 10),
        ("self.list.@items", 50),
        ("self.name", 100),
        ("self.map", 5),
        ("self.map.@keys", 20),
        ("self.map.@values", 8),
        ("self.map.@values.@items", 30),
    ]);
    let max = u64::MAX;
    let rows = [
        ("self.name == 'x'", 3, 3),
        ("self.name == self.name", 5, 14),
        ("self.name.contains('x')", 2, 12),
        ("self.name.matches('^[a-z]*$')", 4, 24),
        ("self.name.startsWith(self.name)", 4, 14),
        ("self.name + self.name == 'x'", 5, 25),
        ("self.list.all(x, x == 'a')", 3, 53),
        ("self.list.all(x, x == self.name)", 3, 113),
        ("self.list[0] == self.name", 6, 10),
        ("self.list.exists(x, x.contains('y'))", 3, 103),
        ("self.list.map(x, x.size()).size() == 2", 15, 155),
        ("'x' in self.list", 2, 12),
        ("self.map.all(k, k.startsWith('a'))", 3, 28),
        ("self.map.all(k, self.map[k].all(v, v == 'x'))", 3, 243),
        ("self.map['a'].size() > 3", 5, 5),
        ("has(self.name)", 1, 1),
        ("has(self.name) && self.name == 'x'", 1, 4),
        ("self.list.join(',')", 2, 53),
        ("self.list.filter(x, x != '').size() > 1", 15, 155),
        ("self.list.sort().size() == 1", 15, 225),
        ("dyn(self.name) == dyn('x')", 5, 5),
        ("self.list.all(x, self.list.all(y, x == y))", 3, 1063),
    ];
    let mut wrong = Vec::new();
    for (text, low, high) in rows {
        let checked = env.compile(text).unwrap_or_else(|issues| panic!("{issues}"));
        let found = checked.estimate(&sizer);
        if (found.min, found.max) != (low, high) {
            wrong.push(format!(
                "{text}: expected {low}..{high}, found {}..{}",
                found.min, found.max
            ));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    let unbounded = env.compile("self.list.all(x, x == x)").unwrap();
    assert_eq!(unbounded.estimate(&super::AnySize).max, max);
}
