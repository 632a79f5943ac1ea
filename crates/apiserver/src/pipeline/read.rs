//! GET of one object.

use super::core::Core;
use super::{Outcome, Request};
use apimachinery::ApiError;

pub(super) async fn get(core: &Core, request: &Request) -> Result<(Outcome, u16), ApiError> {
    match request.call.list.resource_version.as_deref().unwrap_or_default() {
        "" => {
            core.cache.wait_current().await?;
        }
        "0" => {}
        version => core.cache.wait_for(parse_version(version)?).await?,
    }
    let object = core.cache.get(request.kind.as_ref(), &request.path()?);
    Ok((Outcome::Object(object.ok_or_else(|| request.not_found())?), 200))
}

pub(super) fn parse_version(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}
