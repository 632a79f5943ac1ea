//! Lists and maps that have an upper bound. Of one that is too large nothing else is looked at.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

/// Each item with its own path, if there are not too many.
pub(super) fn list<T>(
    items: &[T],
    max: usize,
    path: &Path,
    errors: &mut FieldErrors,
    mut validate: impl FnMut(&T, &Path, &mut FieldErrors),
) {
    if items.len() > max {
        return errors.too_many(path, items.len(), max);
    }
    for (index, item) in items.iter().enumerate() {
        validate(item, &path.index(index), errors);
    }
}

/// The same, and no two items have the same key.
pub(super) fn set<'a, T>(
    items: &'a [T],
    max: usize,
    (path, errors): (&Path, &mut FieldErrors),
    key: impl Fn(&'a T) -> String,
    validate: impl FnMut(&T, &Path, &mut FieldErrors),
) {
    list(items, max, path, errors, validate);
    if items.len() > max {
        return;
    }
    let mut keys = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let key = key(item);
        if keys.contains(&key) {
            errors.duplicate(&path.index(index), key);
        } else {
            keys.insert(key);
        }
    }
}

/// Keys are checked at the path of the map, values at their own.
pub(super) fn map<T>(
    items: &BTreeMap<String, T>,
    (max, key_bytes_shown): (usize, usize),
    (path, errors): (&Path, &mut FieldErrors),
    validate_key: impl Fn(&str, &Path, &mut FieldErrors),
    validate: impl Fn(&T, &Path, &mut FieldErrors),
) {
    if items.len() > max {
        return errors.too_many(path, items.len(), max);
    }
    for (key, item) in items {
        validate_key(key, path, errors);
        validate(item, &path.key(&shortened(key, key_bytes_shown)), errors);
    }
}

/// With its middle left out.
fn shortened(text: &str, bytes_max: usize) -> String {
    const ELLIPSIS: &str = "...";
    const BYTES_MIN: usize = 16;
    let bytes_max = bytes_max.max(BYTES_MIN);
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let rest = bytes_max - ELLIPSIS.len();
    let head = text.floor_char_boundary(rest.div_ceil(2));
    let tail = text.ceil_char_boundary(text.len() - rest / 2);
    format!("{}{ELLIPSIS}{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_lose_their_middle() {
        assert_eq!(shortened("short", 4), "short");
        assert_eq!(shortened("abcdefghijklmnopqrstuvwxyz", 4), "abcdefg...uvwxyz");
        assert_eq!(shortened(&"é".repeat(20), 16).len(), 15);
    }

    #[test]
    fn what_is_too_large_is_not_looked_into() {
        let mut errors = FieldErrors::new();
        set(
            &["a", "a", "a"],
            2,
            (&Path::new("x"), &mut errors),
            |it| (*it).to_owned(),
            |_, path, errors| errors.required(path, ""),
        );
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["x: Too many: 3: must have at most 2 items"]);
    }
}
