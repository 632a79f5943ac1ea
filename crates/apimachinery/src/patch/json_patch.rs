//! RFC 6902 with bounds: a patch is short, `copy` cannot blow a document up, nothing it makes on
//! the way is deeper than an object may be, and what it moves around is no more than a moment's
//! work.

use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, Patch, PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::Error;
use crate::bounds::{DEPTH_MAX, depth, measure};

const OPERATIONS_MAX: usize = 10_000;
/// How much `copy` may add in all, as upstream bounds it by the size of a request.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Items of lists that make room or close up, and values that are moved, in all.
const MOVED_MAX: usize = 20_000_000;

pub(super) fn apply(document: &Value, patch: &[u8]) -> Result<Value, Error> {
    crate::bounds::validate_text(patch)
        .map_err(|err| Error::Malformed(format!("the patch: {err}")))?;
    let patch: Patch = serde_json::from_slice(patch).map_err(|err| {
        // A list of operations that are none is only found out when they are carried out.
        match serde_json::from_slice::<Vec<serde_json::Map<String, Value>>>(patch) {
            Ok(_) => Error::Unprocessable(err.to_string()),
            Err(_) => Error::Malformed(format!("error decoding patch: {err}")),
        }
    })?;
    if patch.0.len() > OPERATIONS_MAX {
        return Err(Error::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            patch.0.len()
        )));
    }
    let mut patched = document.clone();
    let mut spent = Spent::default();
    for operation in &patch.0 {
        spent.validate(&patched, operation)?;
        let lenient = lenient(&patched, operation);
        let operation = lenient.as_ref().unwrap_or(operation);
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation))
            .map_err(|err| Error::Unprocessable(render(operation, &err.kind)))?;
    }
    Ok(patched)
}

/// What upstream makes of a field that is not there, in an object that is: `replace` adds it, and
/// `copy` finds `null`.
fn lenient(document: &Value, operation: &PatchOperation) -> Option<PatchOperation> {
    let is_absent = |place: &Pointer| {
        let parent = place.split_back().and_then(|(parent, _)| document.pointer(parent.as_str()));
        parent.is_some_and(Value::is_object) && document.pointer(place.as_str()).is_none()
    };
    let add = |path: &PointerBuf, value: &Value| {
        PatchOperation::Add(AddOperation { path: path.clone(), value: value.clone() })
    };
    match operation {
        PatchOperation::Replace(it) if is_absent(&it.path) => Some(add(&it.path, &it.value)),
        PatchOperation::Copy(it) if is_absent(&it.from) => Some(add(&it.path, &Value::Null)),
        _ => None,
    }
}

#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    moved: usize,
}

impl Spent {
    /// Before each operation, so that nothing is made that goes beyond the bounds.
    fn validate(&mut self, document: &Value, operation: &PatchOperation) -> Result<(), Error> {
        let (to, levels) = match operation {
            PatchOperation::Test(_) => return Ok(()),
            PatchOperation::Remove(it) => (&it.path, 0),
            PatchOperation::Add(it) => (&it.path, depth(&it.value)),
            PatchOperation::Replace(it) => (&it.path, depth(&it.value)),
            PatchOperation::Move(it) => {
                self.moved += n_shifted(document, &it.from);
                (&it.path, self.carry(document, &it.from)?)
            }
            PatchOperation::Copy(it) => {
                let source = document.pointer(it.from.as_str());
                self.copied_bytes += source.map_or(0, |it| it.to_string().len());
                if self.copied_bytes > COPIED_BYTES_MAX {
                    return Err(Error::Unprocessable(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is {}, \
                         exceeding the limit {COPIED_BYTES_MAX}",
                        self.copied_bytes
                    )));
                }
                (&it.path, self.carry(document, &it.from)?)
            }
        };
        if to.count() + levels > DEPTH_MAX {
            return Err(Error::Unprocessable(format!(
                "the patch nests deeper than {DEPTH_MAX} levels"
            )));
        }
        self.moved += n_shifted(document, to);
        self.validate_moved()
    }

    /// The levels below what is carried to another place.
    fn carry(&mut self, document: &Value, from: &Pointer) -> Result<usize, Error> {
        let (levels, n_values) = document.pointer(from.as_str()).map_or((0, 0), measure);
        self.moved += n_values;
        self.validate_moved()?;
        Ok(levels)
    }

    fn validate_moved(&self) -> Result<(), Error> {
        if self.moved <= MOVED_MAX {
            return Ok(());
        }
        Err(Error::Unprocessable(format!("the patch moves more than {MOVED_MAX} values")))
    }
}

/// How many items of a list an insertion or removal at this place may shift.
fn n_shifted(document: &Value, place: &Pointer) -> usize {
    let parent = place.split_back().and_then(|(parent, _)| document.pointer(parent.as_str()));
    parent.and_then(Value::as_array).map_or(0, Vec::len)
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
