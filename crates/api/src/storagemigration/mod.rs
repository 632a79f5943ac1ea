//! The group storagemigration.k8s.io: one folder per kind.

pub mod storage_version_migration;

pub use storage_version_migration::StorageVersionMigration;
