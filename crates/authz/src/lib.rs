//! May they: RBAC and the Node authorizer, over compiled rules in memory.
//!
//! `Authorizer` asks in upstream's order (system:masters, Node, RBAC); the first to allow wins,
//! nobody denies.

mod attributes;
mod authorizer;
pub mod bootstrap;
mod cover;
pub mod escalation;
pub mod node;
pub mod rbac;
pub mod rule;
pub mod signers;

pub use attributes::Attributes;
pub use authorizer::{Authorized, Authorizer, Decision, Forbidden};
pub use node::NodeAuthorizer;
pub use rbac::{Rbac, Rules};
