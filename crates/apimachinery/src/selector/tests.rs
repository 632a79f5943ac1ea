//! Selectors: text in, text or matches out.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use proptest::prelude::*;

use super::{Fields, Labels};

/// The canonical text, or the error.
fn check(text: &str, expected: &str) {
    let actual = match Labels::parse(text) {
        Ok(it) => it.to_string(),
        Err(err) => format!("error: {err}"),
    };
    assert_eq!(actual, expected, "{text:?}");
}

#[test]
fn label_selectors_parse_to_their_canonical_text() {
    check("", "");
    check("  ", "");
    check("x=a,y==b", "x=a,y=b");
    check("b,a", "a,b");
    check("x in (b,a)", "x in (a,b)");
    check("x notin (a)", "x!=a");
    check("!x , y", "!x,y");
    check("x!=a", "x!=a");
    check("x=", "x=");
    check("x>1,y<-2", "x>1,y<-2");
    check("x in (a,)", "x in (,a)");
    check("x in (,)", "x=");
    check("in=notin", "in=notin");
    check("x in (in,notin)", "x in (in,notin)");
    check("example.com/x=a", "example.com/x=a");
}

#[test]
fn bad_label_selectors_say_what_was_expected() {
    check("x=a,", "error: found '', expected: identifier after ','");
    check("x=a b", "error: found 'b', expected: ',' or 'end of string'");
    check("=a", "error: found '=', expected: !, identifier, or 'end of string'");
    check(
        "x a",
        "error: unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt",
    );
    check("x in a", "error: unable to parse requirement: found 'a' expected: '('");
    check("x in (a", "error: unable to parse requirement: found '', expected: ',' or ')'");
    check("!x=a", "error: found '=', expected: ',' or 'end of string'");
    check(
        "x in ()",
        "error: unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
    );
    check(
        "x>a",
        "error: unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
    );
    assert!(Labels::parse("a/b/c=d").is_err());
    assert!(Labels::parse("x=-a").is_err());
}

#[test]
fn requirements_match_labels() {
    let labels: BTreeMap<String, String> =
        [("app", "web"), ("n", "5")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    for (text, expected) in [
        ("", true),
        ("app=web", true),
        ("app=db", false),
        ("app!=db", true),
        ("other!=db", true),
        ("app in (db,web)", true),
        ("app notin (db,web)", false),
        ("other notin (db)", true),
        ("app", true),
        ("!app", false),
        ("!other", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("app<6", false),
        ("other<6", false),
        ("app=web,n=4", false),
    ] {
        assert_eq!(Labels::parse(text).unwrap().matches(&labels), expected, "{text}");
    }
    assert!(!Labels::nothing().matches(&labels));
    let reparsed = Labels::parse(&Labels::nothing().to_string()).unwrap();
    assert!(!reparsed.matches(&labels) && !reparsed.matches(&BTreeMap::new()));
}

#[test]
fn typed_selectors_convert() {
    assert!(Labels::from_selector(None).unwrap().is_nothing);
    assert!(Labels::from_selector(Some(&LabelSelector::default())).unwrap().is_everything());
    let selector = |operator: &str| LabelSelector {
        match_labels: Some([("z".to_owned(), "1".to_owned())].into()),
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "a".to_owned(),
            operator: operator.to_owned(),
            values: None,
        }]),
    };
    let text = |operator| match Labels::from_selector(Some(&selector(operator))) {
        Ok(it) => it.to_string(),
        Err(err) => err.to_string(),
    };
    assert_eq!(text("Exists"), "a,z=1");
    assert_eq!(text("DoesNotExist"), "!a,z=1");
    assert_eq!(text("Like"), "\"Like\" is not a valid label selector operator");
}

#[test]
fn field_selectors_parse_with_escapes() {
    let check = |text: &str, expected: &str| {
        let actual = match Fields::parse(text) {
            Ok(it) => it.to_string(),
            Err(err) => format!("error: {err}"),
        };
        assert_eq!(actual, expected, "{text:?}");
    };
    check("", "");
    check("metadata.name=x,,status.phase!=Running", "metadata.name=x,status.phase!=Running");
    check("a==b", "a=b");
    check(r"a=b\,c\=d\\", r"a=b\,c\=d\\");
    check("a", "error: invalid selector: 'a'; can't understand 'a'");
    check(r"a=\x", r"error: invalid field selector: invalid escape sequence: \x");
    check("a=b=c", "error: invalid field selector: unescaped character in value: =");
    assert_eq!(Fields::parse("a!=1,a=2").unwrap().exact("a"), Some("2"));
}

proptest! {
    #[test]
    fn label_selectors_survive_their_text(
        keys in proptest::collection::vec("[a-z]{1,8}", 0..4),
        kind in 0..6,
        values in proptest::collection::vec("[A-Za-z0-9]{0,5}", 2..4),
    ) {
        let list = values.join(",");
        let terms: Vec<String> = keys.iter().map(|key| match kind {
            0 => key.clone(),
            1 => format!("!{key}"),
            2 => format!("{key} in ({list})"),
            3 => format!("{key} notin ({list})"),
            4 => format!("{key}>7"),
            _ => format!("{key}={}", values[0]),
        }).collect();
        let parsed = Labels::parse(&terms.join(",")).unwrap();
        prop_assert_eq!(Labels::parse(&parsed.to_string()).unwrap(), parsed);
    }

    #[test]
    fn field_selectors_survive_their_text(values in proptest::collection::vec("\\PC{0,6}", 0..4)) {
        let terms = values.into_iter().map(|it| ("a.b".to_owned(), it, true)).collect();
        let fields = Fields { terms };
        prop_assert_eq!(Fields::parse(&fields.to_string()).unwrap(), fields);
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,40}") {
        let _ = Labels::parse(&text);
        let _ = Fields::parse(&text);
    }
}

#[test]
fn a_selector_has_few_requirements_and_as_many_values_as_it_likes() {
    let many = |n: usize, term: &str| vec![term; n].join(",");
    assert!(Labels::parse(&many(100, "!a")).is_ok());
    let refused = Labels::parse(&many(101, "!a")).expect_err("too many").to_string();
    assert!(refused.contains("at most 100 requirements"), "{refused}");
    assert!(Fields::parse(&many(100, "a=b")).is_ok());
    assert!(Fields::parse(&many(101, "a=b")).is_err());
    let values: Vec<String> = (0..10_000).rev().map(|it| format!("v-{it}")).collect();
    let labels = Labels::parse(&format!("a in ({})", values.join(","))).expect("a selector");
    let has = |value: &str| labels.matches_with(|_| Some(value).filter(|it| !it.is_empty()));
    let has_text = |value: &'static str| has(value);
    assert!(has_text("v-0") && has_text("v-9999") && !has_text("v-10000") && !has_text(""));
}
