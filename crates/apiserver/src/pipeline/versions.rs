//! Objects in the version that was asked for.

use apimachinery::ApiError;

use super::core::Core;
use super::{Outcome, Request};

/// What was found or written, as the request wants it.
pub(super) async fn served(
    core: &Core,
    request: &Request,
    outcome: Outcome,
) -> Result<Outcome, ApiError> {
    let (kind, family) = (request.kind.as_ref(), &request.family);
    // What is behind other doors is of another kind.
    if family.is_stored_as(kind) || !request.is_about_object() {
        return Ok(outcome);
    }
    match outcome {
        Outcome::Object(object) => {
            let served = match family.serve_now(kind, &object) {
                Some(served) => served?,
                None => family.serve(kind, vec![object.clone()]).await?.pop().unwrap_or(object),
            };
            Ok(Outcome::Object(served))
        }
        Outcome::List(list) if list.is_served => Ok(Outcome::List(list)),
        Outcome::List(mut list) => {
            let n_bytes = list.items.iter().map(|it| it.bytes.len()).sum();
            let items = std::mem::take(&mut list.items);
            list.items = match family.is_slow() {
                true => family.serve(kind, items).await?,
                false => {
                    let serve = || items.iter().filter_map(|it| family.serve_now(kind, it));
                    core.heavy.run(n_bytes, || serve().collect::<Result<_, _>>()).await?
                }
            };
            Ok(Outcome::List(list))
        }
        done @ Outcome::Done(_) => Ok(done),
    }
}
