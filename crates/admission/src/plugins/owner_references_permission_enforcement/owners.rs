//! What somebody must be allowed to for keeping an owner from being deleted.

use std::sync::{Arc, LazyLock};

use api::Kind;
use api::apiextensions::CustomResourceDefinition;
use apimachinery::Scope;
use authz::Attributes as Permission;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::context::Context;

static BUILT_IN: LazyLock<Vec<Arc<dyn Kind>>> = LazyLock::new(api::kinds);

fn finalizers(group: &str, version: &str, resource: &str, name: &str) -> Permission {
    Permission {
        verb: "update".to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        subresource: "finalizers".to_owned(),
        name: name.to_owned(),
        is_resource: true,
        ..Permission::default()
    }
}

/// Who may do it to everything is not asked about anything.
pub(super) fn any() -> Permission {
    finalizers("*", "*", "*", "*")
}

/// One for each resource that the owner can be of; none where there is no such kind.
pub(super) fn permissions(context: &Context<'_>, owner: &OwnerReference) -> Vec<Permission> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let namespace = |scope: Scope| match scope {
        Scope::Namespaced => context.request.namespace.to_owned(),
        Scope::Cluster => String::new(),
    };
    let of = |resource: &str, scope: Scope| Permission {
        namespace: namespace(scope),
        ..finalizers(group, version, resource, &owner.name)
    };
    let built_in = BUILT_IN.iter().filter(|it| {
        let names = it.names();
        (&*names.group, &*names.version, &*names.kind) == (group, version, &*owner.kind)
    });
    let mut found: Vec<Permission> =
        built_in.map(|it| of(&it.names().plural, it.scope())).collect();
    for custom in context.lookup.all::<CustomResourceDefinition>(None) {
        let spec = &custom.spec;
        let is_served = spec.versions.iter().any(|it| it.name == version && it.served);
        if spec.group == group && spec.names.kind == owner.kind && is_served {
            let is_namespaced = spec.scope == "Namespaced";
            let scope = if is_namespaced { Scope::Namespaced } else { Scope::Cluster };
            found.push(of(&spec.names.plural, scope));
        }
    }
    found
}
