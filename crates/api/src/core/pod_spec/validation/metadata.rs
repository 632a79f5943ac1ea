//! Annotations of a pod template; labels are checked beside the selector that they must match.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use crate::check;

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

pub(super) fn validate_annotations(
    template: &PodTemplateSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let annotations = template.metadata.iter().flat_map(|it| it.annotations.iter().flatten());
    let mut n_bytes = 0;
    for (key, value) in annotations {
        check::format(key, &is_qualified_name(&key.to_lowercase()), path, errors);
        n_bytes += key.len() + value.len();
    }
    if n_bytes > ANNOTATIONS_BYTES_MAX {
        errors.too_long(path, ANNOTATIONS_BYTES_MAX);
    }
}
