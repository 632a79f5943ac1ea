//! What keeps an object until somebody takes it away.

use crate::context::Context;

/// Unless it is there.
pub(super) fn add(context: &mut Context<'_>, finalizer: &str) {
    let known = context.object().and_then(|it| it.meta().finalizers.as_ref());
    if known.is_some_and(|it| it.iter().any(|it| it == finalizer)) {
        return;
    }
    if let Some(draft) = context.draft_mut() {
        let finalizers = draft.change().meta_mut().finalizers.get_or_insert_default();
        finalizers.push(finalizer.to_owned());
    }
}
