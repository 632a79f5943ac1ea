//! Roles by key, bindings by key, and bindings by who they name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use apimachinery::{ObjectKey, User};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};

/// Whom a binding names. A service account is the user it authenticates as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Who {
    User(String),
    Group(String),
}

#[derive(Clone, Debug)]
pub(super) struct Binding {
    /// The key of the role: without a namespace for a ClusterRole.
    role: ObjectKey,
    role_kind: String,
    who: Vec<(Who, String)>,
}

impl Binding {
    pub(super) fn new(key: &ObjectKey, role: &RoleRef, subjects: &[Subject]) -> Self {
        let namespace = if role.kind == "Role" { key.namespace.as_str() } else { "" };
        Self {
            role: ObjectKey::new(namespace, role.name.as_str()),
            role_kind: role.kind.clone(),
            who: subjects.iter().filter_map(|it| who(it, &key.namespace)).collect(),
        }
    }

    /// `RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "y" to Group "z"`
    pub(super) fn allowed_by(&self, key: &ObjectKey, subject: &str) -> String {
        let binding = if key.namespace.is_empty() {
            format!("ClusterRoleBinding {:?}", key.name)
        } else {
            format!("RoleBinding {:?}", format!("{}/{}", key.name, key.namespace))
        };
        let (kind, role) = (&self.role_kind, &self.role.name);
        format!("RBAC: allowed by {binding} of {kind} {role:?} to {subject}")
    }

    /// `clusterrole.rbac.authorization.k8s.io "x" not found`
    pub(super) fn missing_role(&self) -> String {
        let kind = self.role_kind.to_ascii_lowercase();
        format!("{kind}.{} {:?} not found", super::GROUP, self.role.name)
    }
}

/// The index form of a subject, and how reasons show it.
fn who(subject: &Subject, namespace: &str) -> Option<(Who, String)> {
    let name = &subject.name;
    match subject.kind.as_str() {
        "User" => Some((Who::User(name.clone()), format!("User {name:?}"))),
        "Group" => Some((Who::Group(name.clone()), format!("Group {name:?}"))),
        "ServiceAccount" => {
            let own = subject.namespace.as_deref().filter(|it| !it.is_empty());
            let namespace = own.unwrap_or(namespace);
            (!namespace.is_empty()).then(|| {
                let shown = format!("ServiceAccount {:?}", format!("{name}/{namespace}"));
                (Who::User(format!("system:serviceaccount:{namespace}:{name}")), shown)
            })
        }
        _ => None,
    }
}

#[derive(Default)]
pub(super) struct Index {
    /// ClusterRoles have no namespace in their key.
    roles: HashMap<ObjectKey, Vec<PolicyRule>>,
    bindings: HashMap<ObjectKey, Binding>,
    /// By subject, then by namespace of the binding (empty: cluster-wide), the names of bindings.
    by_who: HashMap<Who, BTreeMap<String, BTreeSet<String>>>,
}

impl Index {
    pub(super) fn set_role(&mut self, key: &ObjectKey, rules: Vec<PolicyRule>) {
        self.roles.insert(key.clone(), rules);
    }

    pub(super) fn remove_role(&mut self, key: &ObjectKey) {
        self.roles.remove(key);
    }

    pub(super) fn set_binding(&mut self, key: &ObjectKey, binding: Binding) {
        self.remove_binding(key);
        for (who, _) in &binding.who {
            let namespaces = self.by_who.entry(who.clone()).or_default();
            namespaces.entry(key.namespace.clone()).or_default().insert(key.name.clone());
        }
        self.bindings.insert(key.clone(), binding);
    }

    pub(super) fn remove_binding(&mut self, key: &ObjectKey) {
        let Some(binding) = self.bindings.remove(key) else { return };
        for (who, _) in &binding.who {
            let Some(namespaces) = self.by_who.get_mut(who) else { continue };
            if let Some(names) = namespaces.get_mut(&key.namespace) {
                names.remove(&key.name);
                if names.is_empty() {
                    namespaces.remove(&key.namespace);
                }
            }
            if namespaces.is_empty() {
                self.by_who.remove(who);
            }
        }
    }

    pub(super) fn rules_of(&self, binding: &Binding) -> Option<&[PolicyRule]> {
        self.roles.get(&binding.role).map(Vec::as_slice)
    }

    /// The bindings that name `user` or a group of it: cluster-wide ones, then those of
    /// `namespace`. With each, the subject that matched, as reasons show it.
    pub(super) fn bindings_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Binding, &'a str)> {
        let cluster = self.bindings_within(user, "");
        let own = (!namespace.is_empty()).then(|| self.bindings_within(user, namespace));
        cluster.chain(own.into_iter().flatten())
    }

    fn bindings_within<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Binding, &'a str)> {
        std::iter::once(Who::User(user.name.clone()))
            .chain(user.groups.iter().map(|it| Who::Group(it.clone())))
            .flat_map(move |who| {
                let names = self.by_who.get(&who).and_then(|it| it.get(namespace));
                names.into_iter().flatten().filter_map(move |name| {
                    let (key, binding) =
                        self.bindings.get_key_value(&ObjectKey::new(namespace, name.as_str()))?;
                    let shown = binding.who.iter().find(|(it, _)| *it == who)?;
                    Some((key, binding, shown.1.as_str()))
                })
            })
    }
}
