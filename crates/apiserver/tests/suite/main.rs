//! The whole server, over the in-memory store: in process in paused time, and on a port over HTTPS.

mod admission_context;
mod admission_policies;
mod api_services;
mod costs;
mod custom_resources;
mod datastore;
mod devices;
mod dry_run;
mod dual_stack;
mod encoding;
mod families;
mod faults;
mod forms;
mod harness;
mod hostile;
mod https;
mod in_process;
mod kubernetes_service;
mod limits;
mod reviews;
mod scope;
mod slow_conversion;
mod subresources;
mod watches;
