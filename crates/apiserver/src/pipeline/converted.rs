//! Selecting among objects that a webhook converts. What a selector asks for is what an object is in
//! the version of the request, which nobody here knows before it was asked for: objects are
//! converted first, some at a time, and selected then.

use std::sync::Arc;

use api::Stored;
use apimachinery::ApiError;

use super::Request;
use super::core::Core;
use crate::cache::Selection;

/// Of the objects of one question to a webhook. More are asked about in several, one after the other.
pub(crate) const QUESTION_BYTES_MAX: usize = 4 << 20;
pub(crate) const QUESTION_OBJECTS_MAX: usize = 1_000;
/// So many at least, however few are wanted: each question takes as long as the webhook does, and
/// few objects may be selected.
const BATCH_MIN: usize = 64;

/// What a page is made of.
#[derive(Default)]
pub(super) struct Found {
    pub(super) items: Vec<Arc<Stored>>,
    /// Those that were looked at: the page ends behind the last.
    pub(super) n_seen: usize,
}

/// Whether objects have to be converted before they can be selected. Where they are is the same in
/// every version.
pub(super) fn is_first(request: &Request, selection: &Selection) -> bool {
    request.family.is_slow() && selection.is_by_content()
}

/// The first `limit` selected objects, in the version of the request.
pub(super) async fn find(
    core: &Core,
    request: &Request,
    (objects, selection): (&[Arc<Stored>], &Selection),
    limit: usize,
) -> Result<Found, ApiError> {
    let place = selection.by_place();
    let n_batch = limit.clamp(BATCH_MIN, QUESTION_OBJECTS_MAX);
    let mut found = Found::default();
    while found.n_seen < objects.len() && found.items.len() < limit {
        let batch = &objects[found.n_seen..];
        let batch = &batch[..n_at_once(batch, n_batch)];
        let candidates = batch.iter().enumerate().filter(|(_, it)| place.matches(&it.meta));
        let (at, candidates): (Vec<usize>, Vec<_>) =
            candidates.map(|(at, it)| (at, it.clone())).unzip();
        let n_bytes = candidates.iter().map(|it| it.bytes.len()).sum();
        let served = request.family.serve(request.kind.as_ref(), candidates);
        let served = core.heavy.drive(n_bytes, served).await?;
        let selected = at.into_iter().zip(served).filter(|(_, it)| selection.matches(&it.meta));
        let mut last = batch.len();
        for (at, object) in selected.take(limit - found.items.len()) {
            found.items.push(object);
            if found.items.len() == limit {
                last = at + 1;
            }
        }
        found.n_seen += last;
    }
    Ok(found)
}

/// How many of the first ones are one question.
fn n_at_once(objects: &[Arc<Stored>], n_max: usize) -> usize {
    let mut n_bytes = 0;
    let fits = objects.iter().take(n_max).take_while(|it| {
        n_bytes += it.bytes.len();
        n_bytes <= QUESTION_BYTES_MAX
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::{Meta, Stored};

    use super::{BATCH_MIN, QUESTION_BYTES_MAX, n_at_once};

    #[test]
    fn a_batch_is_bounded_in_number_and_bytes() {
        let object = |size| Arc::new(Stored::new(Meta::default(), vec![b' '; size].into()));
        let small: Vec<_> = (0..100).map(|_| object(10)).collect();
        assert_eq!(n_at_once(&small, BATCH_MIN), BATCH_MIN);
        assert_eq!(n_at_once(&small, 1_000), 100);
        let large: Vec<_> = (0..3).map(|_| object(QUESTION_BYTES_MAX / 2)).collect();
        assert_eq!(n_at_once(&large, 1_000), 2);
        assert_eq!(n_at_once(&[object(QUESTION_BYTES_MAX + 1)], 1_000), 1, "one at least");
    }
}
