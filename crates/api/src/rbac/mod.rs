//! The group rbac.authorization.k8s.io: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod cluster_role;
pub mod cluster_role_binding;
pub mod role;
pub mod role_binding;
pub(crate) mod rules;
pub(crate) mod subjects;

pub use cluster_role::ClusterRole;
pub use cluster_role_binding::ClusterRoleBinding;
pub use role::Role;
pub use role_binding::RoleBinding;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Typed::<ClusterRole>::new(crate::schema)),
        Arc::new(Typed::<ClusterRoleBinding>::new(crate::schema)),
        Arc::new(Typed::<Role>::new(crate::schema)),
        Arc::new(Typed::<RoleBinding>::new(crate::schema)),
    ]
}
