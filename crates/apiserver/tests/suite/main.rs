//! The whole server, over the in-memory store: in process in paused time, and on a port over HTTPS.

mod admission_context;
mod certificates;
mod costs;
mod custom_resources;
mod datastore;
mod dry_run;
mod dual_stack;
mod encoding;
mod families;
mod faults;
mod flow_control;
mod forms;
mod harness;
mod hostile;
mod https;
mod in_process;
mod kubernetes_service;
mod limits;
mod reviews;
mod scope;
mod service_addresses;
mod slow_conversion;
mod subresources;
mod watches;
