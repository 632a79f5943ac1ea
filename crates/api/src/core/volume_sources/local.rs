//! What is on the machine itself.

use k8s_openapi::api::core::v1::{HostPathVolumeSource, LocalVolumeSource};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::without_backsteps;
use crate::check::text;

const HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

pub(crate) fn host_path(source: &HostPathVolumeSource, path: &Path, errors: &mut FieldErrors) {
    if source.path.is_empty() {
        return errors.required(&path.child("path"), "");
    }
    without_backsteps(&source.path, &path.child("path"), errors);
    let type_ = text(source.type_.as_ref());
    if !HOST_PATH_TYPES.contains(&type_) {
        errors.not_supported(&path.child("type"), type_, HOST_PATH_TYPES);
    }
}

pub(crate) fn local(source: &LocalVolumeSource, path: &Path, errors: &mut FieldErrors) {
    if source.path.is_empty() {
        return errors.required(&path.child("path"), "");
    }
    without_backsteps(&source.path, &path.child("path"), errors);
}
