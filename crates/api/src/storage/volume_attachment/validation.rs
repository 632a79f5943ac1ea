//! What is wrong with a VolumeAttachment.

use k8s_openapi::api::storage::v1::{VolumeAttachmentSource, VolumeAttachmentStatus, VolumeError};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::VolumeAttachment;
use crate::check::{self, text};
use crate::core::persistent_volume::validation::{Place, validate_spec};
use crate::{codec, semantic};

const METADATA_BYTES_MAX: usize = 256 * 1024;
const MESSAGE_BYTES_MAX: usize = 1024;

pub(super) fn validate(attachment: &VolumeAttachment, errors: &mut FieldErrors) {
    let (spec, path) = (&attachment.spec, Path::new("spec"));
    check::csi_driver_name(&spec.attacher, &path.child("attacher"), errors);
    validate_source(&spec.source, &path.child("source"), errors);
    let node = &spec.node_name;
    check::format(node, &is_dns_subdomain(node), &path.child("nodeName"), errors);
    if let Some(status) = &attachment.status {
        validate_status(status, &Path::new("status"), errors);
    }
    if let Some(volume) = &spec.source.persistent_volume_name {
        let path = path.child("source").child("persistentVolumeName");
        check::format(volume, &is_dns_subdomain(volume), &path, errors);
    }
}

fn validate_source(source: &VolumeAttachmentSource, path: &Path, errors: &mut FieldErrors) {
    let exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (&source.inline_volume_spec, source.persistent_volume_name.as_deref()) {
        (None, None) => errors.required(path, exactly_one),
        (Some(_), Some(_)) => errors.forbidden(path, exactly_one),
        (None, Some("")) => errors.required(
            &path.child("persistentVolumeName"),
            "must specify non empty persistentVolumeName",
        ),
        (None, Some(_)) => {}
        (Some(spec), None) => {
            validate_spec(spec, Place::Inline, &path.child("inlineVolumeSpec"), errors);
        }
    }
}

fn validate_status(status: &VolumeAttachmentStatus, path: &Path, errors: &mut FieldErrors) {
    let metadata = status.attachment_metadata.iter().flatten();
    let n_bytes: usize = metadata.map(|(key, value)| key.len() + value.len()).sum();
    if n_bytes > METADATA_BYTES_MAX {
        errors.too_long(&path.child("attachmentMetadata"), METADATA_BYTES_MAX);
    }
    validate_error(status.attach_error.as_ref(), &path.child("attachError"), errors);
    validate_error(status.detach_error.as_ref(), &path.child("detachError"), errors);
}

fn validate_error(error: Option<&VolumeError>, path: &Path, errors: &mut FieldErrors) {
    let Some(error) = error else { return };
    if text(error.message.as_ref()).len() > MESSAGE_BYTES_MAX {
        // Upstream names the bound of the metadata here; clients may match it.
        errors.too_long(&path.child("message"), METADATA_BYTES_MAX);
    }
    if let Some(code) = error.error_code {
        check::in_range(code.into(), 0, i32::MAX.into(), &path.child("errorCode"), errors);
    }
}

pub(super) fn validate_update(
    attachment: &VolumeAttachment,
    stored: &VolumeAttachment,
    errors: &mut FieldErrors,
) {
    let is_same = semantic::equal_at("spec", attachment, stored);
    check::immutable(is_same, codec::tree(&attachment.spec), &Path::new("spec"), errors);
}
