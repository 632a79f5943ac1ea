//! What a client may expect of a Kubernetes API, as cases that run against any cluster: one for each
//! of Kubernetes' own conformance requirements that is in `requirements.tsv`. It speaks
//! through the `kube` crate, HTTP and `kubectl`, and knows nothing of the server but the address.

mod cases;
mod client;
mod events;
mod expect;
mod kubectl;
mod operations;
mod requirements;
mod run;
mod scope;

pub use cases::{Case, all};
pub use requirements::{Requirement, requirements};
pub use run::{Options, Report, run};
