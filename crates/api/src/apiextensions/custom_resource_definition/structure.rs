//! Whether the schemas of a definition are structural. New ones are; of what was stored long ago the
//! status says what is missing. Pure.

use apimachinery::schema::Schema;
use apimachinery::{FieldErrors, Path};

use super::CustomResourceDefinition;
use crate::codec;

pub(super) const CONDITION: &str = "NonStructuralSchema";

/// `None` if there is nothing to complain about.
pub(super) fn violations(crd: &CustomResourceDefinition) -> Option<String> {
    let mut errors = FieldErrors::new();
    let spec = Path::new("spec");
    if crd.spec.preserve_unknown_fields == Some(true) {
        errors.invalid(&spec.child("preserveUnknownFields"), true, "must be false");
    }
    for (index, version) in crd.spec.versions.iter().enumerate() {
        let written = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
        if let Some(written) = written {
            let path = spec.child("versions").index(index).child("schema").child("openAPIV3Schema");
            Schema::from_open_api(&codec::tree(written), &path, &mut errors);
        }
    }
    (!errors.is_empty()).then(|| errors.to_string())
}
