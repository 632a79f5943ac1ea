//! Writes the facts of every kind as a table in Rust, for `src/facts.rs`.

use std::fmt::Write;

use crate::facts::{Facts, Group, Kind, Subresource, Version};

pub(crate) fn table(facts: &Facts) -> String {
    let mut out = String::from("pub(super) const ALL: &[Facts] = &[\n");
    for (group, version) in facts.versions() {
        version.kinds.iter().for_each(|it| write_kind(&mut out, group, version, it));
    }
    out + "];\n"
}

fn write_kind(out: &mut String, group: &Group, version: &Version, kind: &Kind) {
    let name = &kind.name;
    let [plural, singular, short_names @ ..] = &kind.names[..] else {
        panic!("facts/{}.txt gives no names to {name}", group.folder);
    };
    let (prefix, stored_version, hash) = match &kind.stored {
        Some(it) => (&*it.prefix, it.version.rsplit('/').next().unwrap_or_default(), &*it.hash),
        None => ("", "", ""),
    };
    let has = |rule: &str| kind.rules.iter().any(|it| it == rule);
    let subresources: String = kind.subresources.iter().map(subresource).collect();
    let Rules { name_rule, default_delete, checks } = rules(kind);
    write!(
        out,
        "Facts {{ group: {:?}, version: {:?}, kind: {name:?}, plural: {plural:?}, singular: {singular:?},
            short_names: &{short_names:?}, categories: &{:?}, scope: Scope::{},
            verbs: &{:?}, subresources: &[{subresources}],
            registry_prefix: {prefix:?}, stored_version: {stored_version:?}, storage_version_hash: {hash:?},
            definition: {:?}, name_rule: NameRule::{name_rule},
            creates_on_update: {}, updates_unconditionally: {}, has_generation: {},
            default_delete: DeletePolicy::{default_delete}, returns_deleted: {},
            metadata_checks: {checks:?}, validates_twice: {}, judges_changes_first: {} }},\n",
        group.name,
        version.name,
        kind.categories,
        if kind.is_namespaced { "Namespaced" } else { "Cluster" },
        kind.verbs,
        version.definition(name),
        has("creates-on-update"),
        has("updates-unconditionally"),
        has("generation"),
        has("returns-deleted"),
        has("validates-twice"),
        has("judges-changes-first"),
    )
    .expect("a text can be written to");
}

struct Rules {
    name_rule: &'static str,
    default_delete: &'static str,
    /// Of an update of the object, and of its status.
    checks: (usize, usize),
}

fn rules(kind: &Kind) -> Rules {
    let mut rules =
        Rules { name_rule: "DnsSubdomain", default_delete: "Background", checks: (3, 3) };
    for rule in &kind.rules {
        match &**rule {
            "creates-on-update" | "updates-unconditionally" | "generation" | "returns-deleted" => {}
            "validates-twice" | "judges-changes-first" => {}
            checks if checks.starts_with("checks=") => {
                let counts = &checks[7..];
                let (main, status) = counts.split_once('/').unwrap_or((counts, "3"));
                let number = |it: &str| it.parse().expect("facts/ counts checks");
                rules.checks = (number(main), number(status));
            }
            "name=dns-label" => rules.name_rule = "DnsLabel",
            "name=path-segment" => rules.name_rule = "PathSegment",
            "orphans" => rules.default_delete = "Orphan",
            _ => panic!("facts/ has an unknown rule of {}: {rule}", kind.name),
        }
    }
    rules
}

fn subresource(it: &Subresource) -> String {
    let Subresource { name, verbs, .. } = it;
    let (door, own) = match &*it.door {
        "scale" => ("Door::Scale".to_owned(), ("autoscaling", "v1", "Scale")),
        "action" => ("Door::Action".to_owned(), ("", "", "")),
        "stream" => ("Door::Stream".to_owned(), ("", "", "")),
        "proxy" => ("Door::Proxy".to_owned(), ("", "", "")),
        _ if name == "status" => ("Door::Part(Part::Status)".to_owned(), ("", "", "")),
        _ => (format!("Door::Part(Part::Other({name:?}))"), ("", "", "")),
    };
    let kind =
        it.kind.as_ref().map_or(own, |(group, version, kind)| (&**group, &**version, &**kind));
    format!("Subresource {{ name: {name:?}, verbs: &{verbs:?}, kind: {kind:?}, door: {door} }}, ")
}
