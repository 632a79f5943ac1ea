//! Writes the protobuf messages of everything that is served, in the form that
//! `src/protobuf/table.rs` reads.

use std::collections::BTreeSet;

use crate::Definitions;
use crate::facts::{Count, Facts, Field, Group, Version};

/// What is asked for beside the kinds themselves, and has no definition in OpenAPI.
const ALWAYS: [&str; 3] = [
    "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList",
    "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata",
    "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList",
];

pub(crate) fn table(definitions: &Definitions, facts: &Facts) -> String {
    let wanted = reachable(definitions, facts);
    let mut lines = Vec::new();
    for (group, version) in facts.versions() {
        write_version(&mut lines, group, version, &wanted);
    }
    lines.join("\n")
}

/// The definitions, what only messages refer to, and the other versions that a served kind may have
/// been stored in.
pub(crate) fn reachable(definitions: &Definitions, facts: &Facts) -> BTreeSet<String> {
    let types = facts.types();
    let mut open: Vec<String> =
        definitions.keys().filter(|it| types.contains_key(*it)).cloned().collect();
    open.extend(ALWAYS.map(str::to_owned));
    open.extend(stored_versions(definitions, facts));
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        let type_ = types.get(&name).unwrap_or_else(|| panic!("facts/ has no type {name}"));
        if found.insert(name) {
            let below = type_.fields.iter().filter(|it| it.shape.is_type());
            open.extend(below.map(|it| facts.definition(&it.shape.of)));
        }
    }
    found
}

fn stored_versions(definitions: &Definitions, facts: &Facts) -> Vec<String> {
    let mut names = Vec::new();
    for (group, version) in facts.versions() {
        for kind in &version.kinds {
            let is_served = definitions.contains_key(&version.definition(&kind.name));
            let Some(stored) = kind.stored.as_ref().filter(|_| is_served) else { continue };
            let own = (&*group.folder, &*stored.version);
            let (folder, version) = stored.version.split_once('/').unwrap_or(own);
            names.push(facts.version(folder, version).definition(&kind.name));
        }
    }
    names
}

fn write_version(
    lines: &mut Vec<String>,
    group: &Group,
    version: &Version,
    wanted: &BTreeSet<String>,
) {
    let is_wanted = |name: &str| wanted.contains(&version.definition(name));
    if !version.types.iter().any(|it| is_wanted(&it.name)) {
        return;
    }
    let alias = format!("{}/{}", group.folder, version.name);
    let slash = if group.name.is_empty() { "" } else { "/" };
    let api_version = format!("{}{slash}{}", group.name, version.name);
    lines.push(format!("package {alias} {} {api_version}", version.package));
    for type_ in version.types.iter().filter(|it| is_wanted(&it.name)) {
        let fields: String = type_.fields.iter().map(|it| field(it, &alias)).collect();
        lines.push(type_.name.clone() + &fields);
    }
    for kind in version.kinds.iter().filter(|it| it.is_listed() && is_wanted(&it.name)) {
        lines.push(format!("{0}List metadata=1:meta/v1.ListMeta items=2:[]{0}", kind.name));
    }
}

/// In the package `alias`, whose own types need no path.
fn field(field: &Field, alias: &str) -> String {
    let of = field.shape.of.strip_prefix(alias).and_then(|it| it.strip_prefix('.'));
    let of = of.unwrap_or(&field.shape.of);
    let (count, is_kept) = match field.shape.count {
        Count::List => ("[]", false),
        Count::Map => ("{}", false),
        Count::UnlessZero => ("", false),
        // Bytes that are absent and bytes that are empty are the same.
        Count::One | Count::Optional => ("", field.shape.is_scalar() && of != "bytes"),
    };
    format!(" {}={}:{count}{of}{}", field.name, field.number, if is_kept { "!" } else { "" })
}
