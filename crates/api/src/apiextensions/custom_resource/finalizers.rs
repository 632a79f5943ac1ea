//! Names of finalizers that others may have too.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use apimachinery::validation::is_qualified_name;

/// Those of Kubernetes itself.
const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Of those that are not among `before`, in order.
pub(super) fn warnings(meta: &ObjectMeta, before: &[String]) -> Vec<String> {
    let new: BTreeSet<&String> = meta.finalizers.iter().flatten().collect();
    let new = new.into_iter().filter(|it| !before.contains(it));
    new.flat_map(|it| problems(it)).collect()
}

fn problems(name: &str) -> Vec<String> {
    let path = "metadata.finalizers";
    let mut warnings: Vec<String> =
        is_qualified_name(name).iter().map(|it| format!("{path}: {name:?}: {it}")).collect();
    if !name.contains('/') && !STANDARD.contains(&name) {
        let with = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(format!(
            "{path}: {name:?}: prefer a domain-qualified finalizer name{with} to avoid accidental \
             conflicts with other finalizer writers"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::warnings;

    #[test]
    fn names_that_others_may_have_too_are_told_of_when_they_are_new() {
        let check = |names: &[&str], before: &[&str], expected: &[&str]| {
            let owned =
                |it: &[&str]| -> Vec<String> { it.iter().map(|it| (*it).to_owned()).collect() };
            let meta = ObjectMeta { finalizers: Some(owned(names)), ..ObjectMeta::default() };
            assert_eq!(warnings(&meta, &owned(before)), expected);
        };
        check(&["example.org/hold", "orphan", "foregroundDeletion", "kubernetes"], &[], &[]);
        let plain = "metadata.finalizers: \"hold\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
        let dotted = "metadata.finalizers: \"example.org\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers";
        check(&["hold", "example.org"], &[], &[dotted, plain]);
        check(&["hold", "example.org"], &["hold"], &[dotted]);
    }
}
