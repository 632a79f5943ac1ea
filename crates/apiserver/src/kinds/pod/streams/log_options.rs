//! PodLogOptions from a query, checked as upstream checks them, and passed on.

use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use jiff::Timestamp;

use crate::http::query::Query;

/// What a kubelet is asked for.
pub(super) fn parse(query: &Query) -> Result<Vec<(&'static str, String)>, ApiError> {
    let mut errors = FieldErrors::new();
    let mut pairs = Vec::new();
    for key in ["follow", "previous", "timestamps"] {
        if query.flag(key) {
            pairs.push((key, "true".to_owned()));
        }
    }
    for (key, least) in [("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)] {
        let Some(text) = query.get(key).filter(|it| !it.is_empty()) else { continue };
        let number: i64 = text.parse().map_err(|_| {
            let problem = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            ApiError::bad_request(problem)
        })?;
        if number < least {
            let rule = match least {
                0 => "must be greater than or equal to 0",
                _ => "must be greater than 0",
            };
            errors.invalid(&Path::new(key), number, rule);
        }
        pairs.push((key, number.to_string()));
    }
    if let Some(text) = query.get("sinceTime").filter(|it| !it.is_empty()) {
        text.parse::<Timestamp>().map_err(|err| ApiError::bad_request(err.to_string()))?;
        if query.get("sinceSeconds").is_some_and(|it| !it.is_empty()) {
            let rule = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.forbidden(&Path::new(""), rule);
        }
        pairs.push(("sinceTime", text.to_owned()));
    }
    if !errors.is_empty() {
        let kind = GroupKind { group: String::new(), kind: "PodLogOptions".to_owned() };
        return Err(ApiError::invalid(&kind, "", &errors));
    }
    Ok(pairs)
}
