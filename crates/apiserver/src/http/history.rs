//! Lists and watches that go back further than every client can count on, as far as the store
//! remembers: for clients that ask by the header `Xebec-History: store`. Servers that do not know the
//! header answer as far back as they do.

use apimachinery::ApiError;
use client::Verb;
use client::https::{HISTORY_HEADER, HISTORY_OF_STORE};
use http::HeaderMap;

/// What is asked for in another way is refused: it would be taken for the whole past.
pub(super) fn is_asked(verb: Verb, headers: &HeaderMap) -> Result<bool, ApiError> {
    let Some(value) = headers.get(HISTORY_HEADER) else { return Ok(false) };
    if value != HISTORY_OF_STORE {
        let why = format!("the header {HISTORY_HEADER:?} must be {HISTORY_OF_STORE:?}");
        return Err(ApiError::bad_request(why));
    }
    match verb {
        Verb::List | Verb::Watch => Ok(true),
        _ => {
            let why = format!(
                "the header {HISTORY_HEADER:?} is for the verbs list and watch, not for {:?}",
                verb.name()
            );
            Err(ApiError::bad_request(why))
        }
    }
}
