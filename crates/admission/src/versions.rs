//! The versions in which what a request is about is served, for whoever asks for another one than
//! the client did.

use apimachinery::{ApiError, Names};
use bytes::Bytes;
use futures_util::future::BoxFuture;

pub trait Versions: Send + Sync {
    /// All that are served, of whatever group.
    fn served(&self) -> &[Names];

    /// The JSON of an object in another of the versions. May wait: somebody may have to be asked.
    fn convert<'a>(
        &'a self,
        json: Bytes,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Bytes, ApiError>>;
}

/// Of what is served in one version.
pub struct OneVersion;

impl Versions for OneVersion {
    fn served(&self) -> &[Names] {
        &[]
    }

    fn convert<'a>(
        &'a self,
        json: Bytes,
        _api_version: &'a str,
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        Box::pin(std::future::ready(Ok(json)))
    }
}
