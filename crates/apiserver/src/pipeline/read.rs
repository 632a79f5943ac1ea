//! GET of one object.

use std::num::IntErrorKind;

use super::core::Core;
use super::{Outcome, Request};
use apimachinery::{ApiError, Reason};

pub(super) async fn get(core: &Core, request: &Request) -> Result<(Outcome, u16), ApiError> {
    match request.call.list.resource_version.as_deref().unwrap_or_default() {
        "" => {
            core.cache.wait_current().await?;
        }
        "0" => {}
        version => {
            let parsed = parse_version(version).map_err(|err| of_uncached(request, err))?;
            core.cache.wait_for(parsed).await?;
        }
    }
    let object = core.cache.get(request.kind.as_ref(), &request.path()?);
    Ok((Outcome::Object(object.ok_or_else(|| request.not_found())?), 200))
}

/// Events are the one resource that upstream keeps no cache of: what reads them from the store judges
/// versions itself.
fn of_uncached(request: &Request, err: ApiError) -> ApiError {
    match request.kind.names().plural == "events" {
        true => ApiError::bad_request(format!("invalid resource version: {}", err.message())),
        false => err,
    }
}

/// As Go's `strconv` words it, and without a reason: upstream makes no refusal of this.
pub(super) fn parse_version(text: &str) -> Result<u64, ApiError> {
    let why = match text.parse::<u64>() {
        Ok(version) if !text.starts_with('+') => return Ok(version),
        Err(err) if *err.kind() == IntErrorKind::PosOverflow => "value out of range",
        _ => "invalid syntax",
    };
    let message = format!(
        "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
    );
    Err(ApiError::new(Reason::Unknown, message))
}
