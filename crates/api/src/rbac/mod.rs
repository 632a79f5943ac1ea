//! The group rbac.authorization.k8s.io: one folder per kind.

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
