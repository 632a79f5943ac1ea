//! Pods of other operating systems.

use super::{Candidate, Handler, Rejection};

pub(super) struct Os;

impl Handler for Os {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        if candidate.spec.os.as_ref().is_none_or(|it| it.name == "linux") {
            return Ok(());
        }
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        Err(("PodOSNotSupported".to_owned(), message.to_owned()))
    }
}
