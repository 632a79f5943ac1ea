//! Registries.
