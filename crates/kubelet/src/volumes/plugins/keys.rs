//! Which keys of an object become files, and which: the same for ConfigMaps and Secrets, alone or
//! as parts of a projected volume.

use std::collections::BTreeMap;

use bytes::Bytes;
use k8s_openapi::api::core::v1::KeyToPath;
use node_api::volumes::File;

use super::{Error, Files};

/// Which keys of an object, and what they become.
pub(super) struct Reference<'a> {
    pub(super) name: &'a str,
    /// `None` or empty: every key, under its own name.
    pub(super) items: Option<&'a [KeyToPath]>,
    pub(super) is_optional: bool,
    pub(super) mode: u32,
}

pub(super) fn chosen(
    reference: &Reference<'_>,
    kind: &'static str,
    entries: BTreeMap<&str, Bytes>,
) -> Result<Files, Error> {
    let file = |content: &Bytes, mode| File { content: content.clone(), mode, user: None };
    let items = reference.items.unwrap_or_default();
    if items.is_empty() {
        let all = entries.iter();
        return Ok(all
            .map(|(key, value)| ((*key).to_owned(), file(value, reference.mode)))
            .collect());
    }
    let mut files = Files::new();
    for item in items {
        match entries.get(item.key.as_str()) {
            Some(content) => {
                let mode = item.mode.map_or(reference.mode, i32::unsigned_abs);
                files.insert(item.path.clone(), file(content, mode));
            }
            None if reference.is_optional => {}
            None => return Err(Error::KeyNotFound { kind, key: item.key.clone() }),
        }
    }
    Ok(files)
}
