//! RFC 6902 with bounds: a patch is short, and `copy` cannot blow a document up.

use json_patch::{Patch, PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::Error;

const OPERATIONS_MAX: usize = 10_000;
/// How much `copy` may add in all, as upstream bounds it by the size of a request.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

pub(super) fn apply(document: &Value, patch: &[u8]) -> Result<Value, Error> {
    let patch: Patch = serde_json::from_slice(patch)
        .map_err(|err| Error::Malformed(format!("error decoding patch: {err}")))?;
    if patch.0.len() > OPERATIONS_MAX {
        return Err(Error::Malformed(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            patch.0.len()
        )));
    }
    let mut patched = document.clone();
    let mut copied = 0;
    for operation in &patch.0 {
        if let PatchOperation::Copy(copy) = operation {
            let source = patched.pointer(copy.from.as_str());
            copied += source.map_or(0, |it| it.to_string().len());
            if copied > COPIED_BYTES_MAX {
                return Err(Error::Unprocessable(format!(
                    "the patch copies more than {COPIED_BYTES_MAX} bytes"
                )));
            }
        }
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation))
            .map_err(|err| Error::Unprocessable(render(operation, &err.kind)))?;
    }
    Ok(patched)
}

fn render(operation: &PatchOperation, kind: &PatchErrorKind) -> String {
    let (name, path) = match operation {
        PatchOperation::Add(it) => ("add", &it.path),
        PatchOperation::Remove(it) => ("remove", &it.path),
        PatchOperation::Replace(it) => ("replace", &it.path),
        PatchOperation::Move(it) => ("move", &it.path),
        PatchOperation::Copy(it) => ("copy", &it.path),
        PatchOperation::Test(it) => ("test", &it.path),
    };
    match kind {
        PatchErrorKind::TestFailed => format!("testing value {path} failed"),
        other => format!("{name} operation does not apply: doc is missing path: {path}: {other}"),
    }
}
