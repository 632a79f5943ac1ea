//! GET of one object.

use std::num::IntErrorKind;

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

/// As Go's `strconv` words it.
pub(super) fn parse_version(text: &str) -> Result<u64, ApiError> {
    let why = match text.parse::<u64>() {
        Ok(version) if !text.starts_with('+') => return Ok(version),
        Err(err) if *err.kind() == IntErrorKind::PosOverflow => "value out of range",
        _ => "invalid syntax",
    };
    Err(ApiError::bad_request(format!(
        "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
    )))
}
