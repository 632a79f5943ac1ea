//! Reads `rules.txt`; its header says how it is written.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};

use super::{Objects, aggregation_of, metadata};
use crate::rbac::GROUP;

/// The line that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub(super) struct Error {
    line: usize,
    why: &'static str,
}

/// Which kind of role the indented lines belong to: the last of its list.
enum Current {
    None,
    ClusterRole,
    Role,
}

pub(super) fn parse(text: &str) -> Result<Objects, Error> {
    let mut objects = Objects::default();
    let mut current = Current::None;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let fail = |why| Error { line: index + 1, why };
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            words if line.starts_with(' ') => {
                fill(&mut objects, &current, words).map_err(fail)?;
            }
            ["role", name] => current = add_role(&mut objects, name),
            ["controller", name] => {
                let role = format!("system:controller:{name}");
                let subject = format!("sa:kube-system/{name}");
                current = add_role(&mut objects, &role);
                add_binding(&mut objects, &role, &role, &[&subject]).map_err(fail)?;
            }
            ["bind", name, role, subjects @ ..] => {
                add_binding(&mut objects, name, role, subjects).map_err(fail)?;
            }
            _ => return Err(fail("unknown declaration")),
        }
    }
    Ok(objects)
}

fn add_role(objects: &mut Objects, name: &str) -> Current {
    if let Some((namespace, name)) = name.split_once('/') {
        objects.roles.push(Role { metadata: metadata(namespace, name), rules: Some(Vec::new()) });
        Current::Role
    } else {
        objects.cluster_roles.push(ClusterRole {
            metadata: metadata("", name),
            rules: Some(Vec::new()),
            aggregation_rule: None,
        });
        Current::ClusterRole
    }
}

fn fill(objects: &mut Objects, current: &Current, words: &[&str]) -> Result<(), &'static str> {
    let (meta, rules, aggregation) = match current {
        Current::None => return Err("a rule before the first role"),
        Current::ClusterRole => {
            let role = objects.cluster_roles.last_mut().ok_or("no role")?;
            (&mut role.metadata, &mut role.rules, Some(&mut role.aggregation_rule))
        }
        Current::Role => {
            let role = objects.roles.last_mut().ok_or("no role")?;
            (&mut role.metadata, &mut role.rules, None)
        }
    };
    match words {
        ["label", key] => {
            meta.labels.get_or_insert_default().insert((*key).to_owned(), "true".to_owned());
        }
        ["aggregate", key] => {
            *aggregation.ok_or("only ClusterRoles aggregate")? = Some(aggregation_of(key));
        }
        words => rules.get_or_insert_default().push(rule(words)?),
    }
    Ok(())
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|it| if it == "core" { String::new() } else { it.to_owned() }).collect()
}

fn verbs(text: &str) -> Vec<String> {
    list(match text {
        "read" => "get,list,watch",
        "write" => "create,delete,deletecollection,patch,update",
        "all" => "create,delete,deletecollection,get,list,patch,update,watch",
        "record" => "create,patch,update",
        other => other,
    })
}

fn rule(words: &[&str]) -> Result<PolicyRule, &'static str> {
    match words {
        [verb, "paths", paths] => Ok(PolicyRule {
            verbs: verbs(verb),
            non_resource_urls: Some(list(paths)),
            ..PolicyRule::default()
        }),
        [verb, resources, groups, names @ ..] if names.len() < 2 => Ok(PolicyRule {
            verbs: verbs(verb),
            resources: Some(list(resources)),
            api_groups: Some(list(groups)),
            resource_names: names.first().map(|it| list(it)),
            ..PolicyRule::default()
        }),
        _ => Err("a rule has verbs, resources, groups and perhaps names"),
    }
}

fn add_binding(
    objects: &mut Objects,
    name: &str,
    role: &str,
    subjects: &[&str],
) -> Result<(), &'static str> {
    let role_ref = |kind: &str| RoleRef {
        api_group: Some(GROUP.to_owned()),
        kind: kind.to_owned(),
        name: role.to_owned(),
    };
    let subjects: Vec<Subject> = subjects.iter().map(|it| subject(it)).collect::<Result<_, _>>()?;
    let subjects = (!subjects.is_empty()).then_some(subjects);
    if let Some((namespace, name)) = name.split_once('/') {
        let metadata = metadata(namespace, name);
        objects.role_bindings.push(RoleBinding { metadata, role_ref: role_ref("Role"), subjects });
    } else {
        let metadata = metadata("", name);
        let role_ref = role_ref("ClusterRole");
        objects.cluster_role_bindings.push(ClusterRoleBinding { metadata, role_ref, subjects });
    }
    Ok(())
}

fn subject(text: &str) -> Result<Subject, &'static str> {
    let (kind, name) = text.split_once(':').ok_or("a subject is kind:name")?;
    let named = |kind: &str| Subject {
        api_group: Some(GROUP.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    match kind {
        "user" => Ok(named("User")),
        "group" => Ok(named("Group")),
        "sa" => {
            let (namespace, name) = name.split_once('/').ok_or("sa:namespace/name")?;
            Ok(Subject {
                api_group: None,
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
            })
        }
        _ => Err("a subject is a user, a group or a service account"),
    }
}
