//! The one printer of errors: the message, then each cause, on one line.

use std::error::Error;
use std::fmt::Write as _;

/// `opening the store: reading the header: permission denied`
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        let _ = write!(text, ": {it}");
        cause = it.source();
    }
    text
}
