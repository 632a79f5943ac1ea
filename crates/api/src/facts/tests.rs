//! What is written in `facts/` is what upstream serves, and what is served here.

use std::collections::BTreeSet;

use apimachinery::Scope;

use super::table;
use crate::kind::{Facts, Subresource};

const UPSTREAM: &str = include_str!("upstream.txt");

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// `status(get+patch+update;Pod)`
fn shown(subresource: &Subresource, of: &Facts) -> String {
    let kind = match subresource.kind {
        ("", "", "") => of.kind.to_owned(),
        (group, version, kind) if (group, version) == (of.group, of.version) => kind.to_owned(),
        (group, version, kind) => format!("{group}/{version}.{kind}"),
    };
    format!("{}({};{kind})", subresource.name, subresource.verbs.join("+"))
}

fn line(facts: &Facts) -> String {
    let group = if facts.group.is_empty() { "core" } else { facts.group };
    let mut subresources: Vec<String> =
        facts.subresources.iter().map(|it| shown(it, facts)).collect();
    subresources.sort();
    let stored = match (facts.group, facts.stored_version) {
        (_, "") => String::new(),
        // Events are those of the core group.
        ("events.k8s.io" | "", version) => version.to_owned(),
        (group, version) => format!("{group}/{version}"),
    };
    let words = [
        group.to_owned(),
        facts.version.to_owned(),
        facts.kind.to_owned(),
        facts.plural.to_owned(),
        facts.singular.to_owned(),
        facts.short_names.join(","),
        facts.categories.join(","),
        match facts.scope {
            Scope::Namespaced => "namespaced".to_owned(),
            Scope::Cluster => "cluster".to_owned(),
        },
        facts.verbs.join(","),
        subresources.join("&"),
        stored,
        facts.storage_version_hash.to_owned(),
        facts.registry_prefix.to_owned(),
    ];
    words.map(or_dash).join(" ")
}

fn upstream() -> BTreeSet<String> {
    let lines = UPSTREAM.lines().filter(|it| !it.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn names_verbs_and_places_are_those_of_upstream() {
    // Those without verbs are bodies of other requests.
    let resources = table::ALL.iter().filter(|it| !it.verbs.is_empty());
    let ours: BTreeSet<String> = resources.map(line).collect();
    let upstream = upstream();
    let only = |these: &BTreeSet<String>, those: &BTreeSet<String>| {
        these.difference(those).map(|it| format!("\n  {it}")).collect::<String>()
    };
    assert!(
        ours == upstream,
        "upstream alone:{}\nwe alone:{}",
        only(&upstream, &ours),
        only(&ours, &upstream)
    );
    assert_eq!(upstream.len(), 95, "the table is whole");
}

#[test]
fn all_of_them_are_served() {
    let key = |group: &str, version: &str, plural: &str| {
        format!("{} {version} {plural}", if group.is_empty() { "core" } else { group })
    };
    let kinds = crate::kinds();
    let served: BTreeSet<String> = kinds
        .iter()
        .map(|it| it.names())
        .map(|it| key(&it.group, &it.version, &it.plural))
        .collect();
    let upstream = upstream();
    let wanted = upstream.iter().map(|it| {
        let words: Vec<&str> = it.split(' ').collect();
        format!("{} {} {}", words[0], words[1], words[3])
    });
    let missing: Vec<String> = wanted.filter(|it| !served.contains(it)).collect();
    assert_eq!(missing, Vec::<String>::new());
}
