//! Rules against rules; and the cutting of boxes against the comparison of single permissions.

use k8s_openapi::api::rbac::v1::PolicyRule;
use proptest::prelude::*;

use super::{TEXT_MAX, TooMany, missing};
use crate::rule::{self, items};

/// `verbs groups resources [names]`, or `verbs /paths`; commas between, `-` for the core group.
fn parse(text: &str) -> PolicyRule {
    let words: Vec<Vec<String>> =
        text.split(' ').map(|it| it.split(',').map(|it| it.replace('-', "")).collect()).collect();
    match words.as_slice() {
        [verbs, paths] => PolicyRule {
            verbs: verbs.clone(),
            non_resource_urls: Some(paths.clone()),
            ..PolicyRule::default()
        },
        [verbs, groups, resources, names @ ..] => PolicyRule {
            verbs: verbs.clone(),
            api_groups: Some(groups.clone()),
            resources: Some(resources.clone()),
            resource_names: names.first().cloned(),
            ..PolicyRule::default()
        },
        _ => panic!("{text}"),
    }
}

fn check(held: &[&str], wanted: &[&str], expected: &[&str]) {
    let rules = |texts: &[&str]| texts.iter().map(|it| parse(it)).collect::<Vec<_>>();
    let lines = missing(&rules(held), &rules(wanted)).unwrap().map(|it| it.lines);
    assert_eq!(lines.unwrap_or_default(), expected, "{held:?} {wanted:?}");
}

#[test]
fn what_is_held_may_be_spread_over_rules() {
    check(&["get - pods", "list - pods"], &["get,list - pods"], &[]);
    check(&["* * *"], &["get - pods", "* apps *", "get - pods/log x,y"], &[]);
    check(&["* * *"], &["get /healthz"], &[r#"{NonResourceURLs:["/healthz"], Verbs:["get"]}"#]);
    check(
        &["get - pods"],
        &["get,list,watch - pods,secrets"],
        &[
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
        ],
    );
    check(&["get - */scale"], &["get - pods/scale"], &[]);
    check(&["get - pods"], &["get - *"], &[r#"{APIGroups:[""], Resources:["*"], Verbs:["get"]}"#]);
}

#[test]
fn names_narrow_what_is_held() {
    check(&["get - pods a,b"], &["get - pods a"], &[]);
    check(&["get - pods"], &["get - pods a"], &[]);
    check(
        &["get - pods a"],
        &["get - pods a,b"],
        &[r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#],
    );
    check(
        &["get - pods a"],
        &["get - pods"],
        &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#],
    );
}

#[test]
fn paths_cover_what_begins_like_them() {
    check(&["get /a/*"], &["get /a/b,/a/*"], &[]);
    check(&["get *"], &["get /a/b"], &[]);
    check(
        &["get /a"],
        &["get /a/b", "put /a"],
        &[
            r#"{NonResourceURLs:["/a"], Verbs:["put"]}"#,
            r#"{NonResourceURLs:["/a/b"], Verbs:["get"]}"#,
        ],
    );
}

fn many(letter: char, n: usize) -> Vec<String> {
    (0..n).map(|it| format!("{letter}{it}")).collect()
}

fn product(n: usize) -> PolicyRule {
    PolicyRule {
        verbs: many('v', n),
        api_groups: Some(many('g', n)),
        resources: Some(many('r', n)),
        resource_names: Some(many('n', n)),
        ..PolicyRule::default()
    }
}

/// 40 x 40 x 40 took 18 seconds once. These are 6 x 10^14 permissions.
#[test]
fn a_short_text_with_many_permissions_is_compared_as_it_is_written() {
    let wanted = product(5_000);
    let nothing = missing(&[parse("get - pods")], std::slice::from_ref(&wanted)).unwrap().unwrap();
    let n_bytes: usize = nothing.lines.iter().map(String::len).sum();
    assert!(nothing.has_more && !nothing.lines.is_empty() && n_bytes < 4 * TEXT_MAX, "{n_bytes}");
    assert_eq!(missing(&[parse("* * *")], std::slice::from_ref(&wanted)).unwrap(), None);
    let held: Vec<PolicyRule> = vec![wanted.clone()];
    assert_eq!(missing(&held, &[wanted]).unwrap(), None);
}

/// Long names are as good as many.
#[test]
fn a_refusal_repeats_no_long_text() {
    let long = "x".repeat(1 << 20);
    let wanted = parse(&format!("get,{long} - pods,secrets"));
    let missing = missing(&[], &[wanted]).unwrap().unwrap();
    assert_eq!((missing.lines.len(), missing.has_more), (0, true));
}

/// Held rules that each take one permission away leave ever more pieces: that ends at a bound.
#[test]
fn rules_that_overlap_in_too_many_ways_are_refused() {
    let point = |it: usize| parse(&format!("v{it} g{it} r{it} n{it}"));
    let held: Vec<PolicyRule> = (0..1_000).map(point).collect();
    assert_eq!(missing(&held, &[product(1_000)]), Err(TooMany));
    assert_eq!(missing(&[product(60_000)], &[parse("get - pods")]), Err(TooMany));
}

/// The rules of one verb, group, resource and name, or path, each.
fn single(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |it: &String| Some(vec![it.clone()]);
    let mut all = Vec::new();
    for verb in &rule.verbs {
        let of = PolicyRule { verbs: vec![verb.clone()], ..PolicyRule::default() };
        for path in items(&rule.non_resource_urls) {
            all.push(PolicyRule { non_resource_urls: one(path), ..of.clone() });
        }
        for group in items(&rule.api_groups) {
            for resource in items(&rule.resources) {
                let of =
                    PolicyRule { api_groups: one(group), resources: one(resource), ..of.clone() };
                match items(&rule.resource_names) {
                    [] => all.push(of),
                    names => all.extend(
                        names.iter().map(|it| PolicyRule { resource_names: one(it), ..of.clone() }),
                    ),
                }
            }
        }
    }
    all
}

fn covers(held: &PolicyRule, single: &PolicyRule) -> bool {
    let all =
        |list: &Option<Vec<String>>, test: &dyn Fn(&String) -> bool| items(list).iter().all(test);
    let has = |list: &Option<Vec<String>>, it: &String| {
        items(list).iter().any(|own| own == "*" || own == it)
    };
    let names = items(&held.resource_names);
    single.verbs.iter().all(|it| held.verbs.iter().any(|own| own == "*" || own == it))
        && all(&single.api_groups, &|it| has(&held.api_groups, it))
        && all(&single.resources, &|it| {
            let child = it.split_once('/').map(|(_, child)| format!("*/{child}"));
            has(&held.resources, it) || child.is_some_and(|it| items(&held.resources).contains(&it))
        })
        && all(&single.non_resource_urls, &|it| rule::has_path(items(&held.non_resource_urls), it))
        && (names.is_empty()
            || (single.resource_names.is_some()
                && all(&single.resource_names, &|it| names.contains(it))))
}

fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
    let some = |from: &'static [&'static str], least: usize| {
        proptest::sample::subsequence(from.to_vec(), least..=from.len())
            .prop_map(|it| it.into_iter().map(str::to_owned).collect::<Vec<String>>())
    };
    let resources = (
        some(&["get", "list", "*"], 1),
        some(&["", "apps", "*"], 1),
        some(&["pods", "pods/log", "*/log", "*"], 1),
        some(&["a", "b"], 0),
    )
        .prop_map(|(verbs, groups, resources, names)| PolicyRule {
            verbs,
            api_groups: Some(groups),
            resources: Some(resources),
            resource_names: Some(names),
            ..PolicyRule::default()
        });
    let paths = (some(&["get", "put", "*"], 1), some(&["/a", "/a/b", "/a/*", "*"], 1)).prop_map(
        |(verbs, paths)| PolicyRule {
            verbs,
            non_resource_urls: Some(paths),
            ..PolicyRule::default()
        },
    );
    proptest::collection::vec(prop_oneof![resources, paths], 0..5)
}

proptest! {
    #[test]
    fn boxes_say_what_single_permissions_say(held in rules(), wanted in rules()) {
        let is_covered = wanted
            .iter()
            .flat_map(single)
            .all(|it| held.iter().any(|held| covers(held, &it)));
        prop_assert_eq!(missing(&held, &wanted).unwrap().is_none(), is_covered);
    }
}
