//! The group storage.k8s.io: one folder per kind.

pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
mod parameters;
pub mod storage_class;
pub mod volume_attachment;
pub mod volume_attributes_class;

pub use csi_driver::CSIDriver;
pub use csi_node::CSINode;
pub use csi_storage_capacity::CSIStorageCapacity;
pub use storage_class::StorageClass;
pub use volume_attachment::VolumeAttachment;
pub use volume_attributes_class::VolumeAttributesClass;
