//! Writes the protobuf messages of everything that is served, in the form that `src/protobuf/table.rs` reads.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::Definitions;
use crate::facts::{Count, Facts, Field, Kind, Version};

/// What is asked for beside the kinds themselves, and has no definition in OpenAPI.
const ALWAYS: [&str; 2] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata",
    "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList",
];

/// The definitions, what only messages refer to, and the other versions that a served kind may have been stored in.
pub(crate) fn table(definitions: &Definitions, facts: &Facts) -> String {
    let types = facts.types();
    let mut wanted: Vec<String> =
        definitions.keys().filter(|it| types.contains_key(*it)).cloned().collect();
    wanted.extend(ALWAYS.map(str::to_owned));
    wanted.extend(stored_elsewhere(definitions, facts));
    let mut found = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        let (_, _, type_) = types.get(&name).unwrap_or_else(|| panic!("facts/ has no type {name}"));
        if found.insert(name) {
            let below = type_.fields.iter().filter(|it| it.shape.is_type());
            wanted.extend(below.map(|it| facts.definition(&it.shape.of)));
        }
    }
    let mut out = String::new();
    for group in &facts.groups {
        for version in &group.versions {
            let name = |it: &str| format!("{}.{it}", version.package);
            let of = |it: &&crate::facts::Type| found.contains(&name(&it.name));
            if !version.types.iter().any(|it| of(&it)) {
                continue;
            }
            let slash = if group.name.is_empty() { "" } else { "/" };
            let (alias, package) = (&group.folder, &version.package);
            line(
                &mut out,
                &format!("package {alias}/{0} {package} {1}{slash}{0}", version.name, group.name),
            );
            for type_ in version.types.iter().filter(of) {
                let fields = type_.fields.iter().map(|it| field(it, &group.folder, &version.name));
                line(&mut out, &format!("{}{}", type_.name, fields.collect::<String>()));
            }
            for kind in lists(version).filter(|it| found.contains(&name(&it.name))) {
                line(
                    &mut out,
                    &format!("{0}List metadata=1:meta/v1.ListMeta items=2:[]{0}", kind.name),
                );
            }
        }
    }
    out
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a text can be written to");
}

fn lists(version: &Version) -> impl Iterator<Item = &Kind> {
    version.kinds.iter().filter(|it| it.verbs.iter().any(|it| it == "list"))
}

fn stored_elsewhere(definitions: &Definitions, facts: &Facts) -> Vec<String> {
    let mut names = Vec::new();
    for group in &facts.groups {
        for version in &group.versions {
            for kind in &version.kinds {
                let is_served =
                    definitions.contains_key(&format!("{}.{}", version.package, kind.name));
                if let (true, Some(stored)) = (is_served, &kind.stored) {
                    let (folder, version) =
                        stored.version.split_once('/').unwrap_or((&group.folder, &stored.version));
                    names.push(format!("{}.{}", facts.version(folder, version).package, kind.name));
                }
            }
        }
    }
    names
}

fn field(field: &Field, folder: &str, version: &str) -> String {
    let own = format!("{folder}/{version}.");
    let of = field.shape.of.strip_prefix(&own).unwrap_or(&field.shape.of);
    let (count, is_kept) = match field.shape.count {
        Count::List => ("[]", false),
        Count::Map => ("{}", false),
        Count::UnlessZero => ("", false),
        // Bytes that are absent and bytes that are empty are the same.
        Count::One | Count::Optional => ("", field.shape.is_scalar() && of != "bytes"),
    };
    format!(" {}={}:{count}{of}{}", field.name, field.number, if is_kept { "!" } else { "" })
}
