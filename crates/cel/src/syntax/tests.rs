//! Texts that are no expressions, and what is said about them; that nothing panics.

use proptest::prelude::*;

use crate::Env;

fn issues(text: &str) -> String {
    match Env::extended().compile(text) {
        Ok(_) => "ok".to_owned(),
        Err(issues) => issues.to_string(),
    }
}

const OPERAND: &str = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
                       NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

#[test]
fn syntax_errors_name_the_place() {
    let rows = [
        ("", format!("1:0: Syntax error: mismatched input '<EOF>' {OPERAND}")),
        ("1 +", format!("1:4: Syntax error: mismatched input '<EOF>' {OPERAND}\n | 1 +\n | ...^")),
        ("1 + )", format!("1:5: Syntax error: mismatched input ')' {OPERAND}\n | 1 + )\n | ....^")),
        ("1)", "1:2: Syntax error: extraneous input ')' expecting <EOF>\n | 1)\n | .^".to_owned()),
        ("a b c", "1:3: Syntax error: mismatched input 'b' expecting <EOF>\n | a b c\n | ..^".to_owned()),
        ("(1", "1:3: Syntax error: missing ')' at '<EOF>'\n | (1\n | ..^".to_owned()),
        ("1 = 2", "1:3: Syntax error: token recognition error at: '='\n | 1 = 2\n | ..^".to_owned()),
        ("'abc", "1:1: Syntax error: token recognition error at: ''abc'\n | 'abc\n | ^".to_owned()),
        ("a.1", "1:2: Syntax error: extraneous input '.1' expecting <EOF>\n | a.1\n | .^".to_owned()),
        ("a.'x'", "1:3: Syntax error: mismatched input ''x'' expecting IDENTIFIER\n | a.'x'\n | ..^".to_owned()),
        ("[1, 2", "1:6: Syntax error: missing ',' at '<EOF>'\n | [1, 2\n | .....^".to_owned()),
        ("{'a' 1}", "1:6: Syntax error: missing ':' at '1'\n | {'a' 1}\n | .....^".to_owned()),
        ("true ? 1", "1:9: Syntax error: missing ':' at '<EOF>'\n | true ? 1\n | ........^".to_owned()),
        ("while", "1:1: reserved identifier: while\n | while\n | ^".to_owned()),
        ("1 + if", "1:5: reserved identifier: if\n | 1 + if\n | ....^".to_owned()),
        ("9223372036854775808", "1:1: invalid int literal\n | 9223372036854775808\n | ^".to_owned()),
        ("18446744073709551616u", "1:1: invalid uint literal\n | 18446744073709551616u\n | ^".to_owned()),
        ("1e999", "1:1: invalid double literal\n | 1e999\n | ^".to_owned()),
        (r"'\q'", "1:1: unable to unescape string\n | '\\q'\n | ^".to_owned()),
        ("1 +\n  y", "2:3: undeclared reference to 'y' (in container '')\n |   y\n | ..^".to_owned()),
        ("'\u{e9}' + y", "1:7: undeclared reference to 'y' (in container '')\n | '\u{e9}' + y\n | .\u{ff0e}....^".to_owned()),
        ("\t\ty", "1:3: undeclared reference to 'y' (in container '')\n |   y\n | ..^".to_owned()),
    ];
    for (text, expected) in rows {
        assert_eq!(issues(text), format!("ERROR: <input>:{expected}"), "{text}");
    }
}

#[test]
fn several_issues_are_lines_in_order() {
    let expected = "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x + y\n | ^\n\
                    ERROR: <input>:1:5: undeclared reference to 'y' (in container '')\n | x + y\n | ....^";
    assert_eq!(issues("x + y"), expected);
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    assert_eq!(issues(&nested(200)), "ok");
    assert!(issues(&nested(251)).contains("expression recursion limit exceeded: 250"));
    assert!(issues(&format!("{}1", "(".repeat(100_000 - 1))).contains("recursion limit"));
    assert!(issues(&vec!["1"; 300].join(" + ")).contains("recursion limit"));
    assert_eq!(issues(&vec!["true"; 5000].join(" && ")), "ok");
    let long = format!("'{}'", "x".repeat(100_000));
    let expected = "expression code point size exceeds limit: size: 100002, limit 100000";
    assert!(issues(&long).contains(expected));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        crate::garbage::expression(&text);
    }

    #[test]
    fn what_compiles_ends_within_its_budget(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("1"), Just("2u"), Just("1.5"), Just("'a'"), Just("b'a'"), Just("true"), Just("null"),
                Just("["), Just("]"), Just("("), Just(")"), Just("{"), Just("}"), Just(":"), Just(","),
                Just("+"), Just("-"), Just("*"), Just("/"), Just("%"), Just("=="), Just("<"), Just("&&"),
                Just("||"), Just("!"), Just("?"), Just("."), Just(" in "), Just("x"), Just(".all(x,"),
                Just(".map(x,"), Just(".exists(i, x,"), Just(".filter(x,"), Just(".size()"), Just("size("),
                Just("dyn("), Just("string("), Just(".split("), Just(".join()"), Just(".matches('a+')"),
                Just("lists.range(99)"), Just(".sort()"), Just("optional.of("), Just("[?0]"), Just(".?a"),
                Just("'%s'.format(["), Just("has("), Just("[0]"), Just("0x7fffffffffffffff"),
            ],
            0..12,
        )
    ) {
        crate::garbage::expression(&parts.concat());
    }
}
