//! The group apiregistration.k8s.io: one folder per kind.

pub mod api_service;

pub use api_service::APIService;
