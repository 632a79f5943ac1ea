//! The group resource.k8s.io: devices that nodes have, and claims to them. One folder per kind, and
//! what they share.

mod binding_conditions;
mod bounded;
mod claims;
mod claims_v1beta1;
mod configuration;
pub mod device_class;
pub mod device_taint_rule;
mod expressions;
mod names;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_pool_status_request;
pub mod resource_slice;
mod taints;

pub use device_class::DeviceClass;
pub use device_taint_rule::DeviceTaintRule;
pub use resource_claim::ResourceClaim;
pub use resource_claim_template::ResourceClaimTemplate;
pub use resource_pool_status_request::ResourcePoolStatusRequest;
pub use resource_slice::ResourceSlice;
