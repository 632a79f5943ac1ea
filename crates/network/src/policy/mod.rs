//! NetworkPolicies: who may talk to the pods of this node, and whom they may talk to.
//!
//! `state` decides, purely and by difference; `enforcer` tells the kernel, one transaction per
//! family and change; `task` follows the API. A cluster whose policies select no pod of this node
//! has no table here.

mod anchors;
mod chains;
pub mod cluster;
mod clusterwide;
pub mod compile;
mod enforcer;
pub mod model;
mod ranges;
mod slots;
pub mod state;
mod strangers;
mod tables;
mod task;
mod terms;
pub mod views;
pub mod why;

pub use enforcer::{Enforcer, Error, purge};
pub use task::{Config, Policies, start};
