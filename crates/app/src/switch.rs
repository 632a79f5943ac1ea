//! Values of flags as Go's flags take them: booleans with or without a value, files that may be
//! nobody's.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// Every spelling that Go's `strconv.ParseBool` knows. Flags of this kind take their value after
/// `=` alone: `--leader-elect`, `--leader-elect=true`.
pub(crate) fn parse(text: &str) -> Result<bool, String> {
    features::parse_bool(text).ok_or_else(|| format!("{text:?} is neither true nor false"))
}

/// A path; an empty one is none, see [`named`].
pub(crate) fn path(text: &str) -> Result<PathBuf, Infallible> {
    Ok(PathBuf::from(text))
}

/// A file that a flag names: `--client-ca-file=` names none.
pub(crate) fn named(file: &Option<PathBuf>) -> Option<&Path> {
    file.as_deref().filter(|it| !it.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{named, parse};

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        let check = |text, expected| assert_eq!(parse(text).ok(), expected, "{text}");
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            check(yes, Some(true));
        }
        for no in ["0", "f", "F", "false", "FALSE", "False"] {
            check(no, Some(false));
        }
        for other in ["", "yes", "tRUE", "2"] {
            check(other, None);
        }
    }

    #[test]
    fn an_empty_path_names_nothing() {
        assert!(named(&None).is_none() && named(&Some(PathBuf::new())).is_none());
        assert!(named(&Some(PathBuf::from("ca.crt"))).is_some());
    }
}
