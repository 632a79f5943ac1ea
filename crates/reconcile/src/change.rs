//! What happened to an object, as an informer tells it.

use std::sync::Arc;

use informer::EventHandler;

/// One change of one object. Keys are made of it, never work: a reconcile sees the cache, which may
/// be ahead of this.
pub enum Change<'a, T> {
    Added(&'a Arc<T>),
    Updated {
        before: &'a Arc<T>,
        after: &'a Arc<T>,
    },
    /// With the last known state.
    Deleted(&'a Arc<T>),
}

impl<T> Clone for Change<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Change<'_, T> {}

impl<'a, T> Change<'a, T> {
    pub fn before(self) -> Option<&'a Arc<T>> {
        match self {
            Self::Added(_) => None,
            Self::Updated { before, .. } | Self::Deleted(before) => Some(before),
        }
    }

    pub fn after(self) -> Option<&'a Arc<T>> {
        match self {
            Self::Added(after) | Self::Updated { after, .. } => Some(after),
            Self::Deleted(_) => None,
        }
    }

    /// The newest state that is known, of a deleted object too.
    pub fn latest(self) -> &'a Arc<T> {
        match self {
            Self::Added(it) | Self::Updated { after: it, .. } | Self::Deleted(it) => it,
        }
    }

    /// The object as it is, when it is new or a property of it has changed; absent otherwise, and
    /// when it is gone.
    pub fn with_new<V: PartialEq>(self, property: impl Fn(&'a T) -> V) -> Option<&'a Arc<T>> {
        let is_new =
            |after: &&'a Arc<T>| self.before().is_none_or(|it| property(it) != property(after));
        self.after().filter(is_new)
    }

    /// The object before and after.
    pub fn states(self) -> impl Iterator<Item = &'a Arc<T>> {
        [self.before(), self.after()].into_iter().flatten()
    }
}

struct OnChange<F>(F);

impl<T, F: Fn(Change<'_, T>) + Send + Sync> EventHandler<T> for OnChange<F> {
    fn on_add(&self, object: &Arc<T>, _is_initial: bool) {
        (self.0)(Change::Added(object));
    }

    fn on_update(&self, before: &Arc<T>, after: &Arc<T>) {
        (self.0)(Change::Updated { before, after });
    }

    fn on_delete(&self, last: &Arc<T>) {
        (self.0)(Change::Deleted(last));
    }
}

/// A handler for an informer, made of a function. It must not wait.
pub fn on_change<T: 'static>(
    handle: impl Fn(Change<'_, T>) + Send + Sync + 'static,
) -> Arc<dyn EventHandler<T>> {
    Arc::new(OnChange(handle))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Change;

    #[test]
    fn a_property_is_new_when_it_differs_or_the_object_does() {
        let (one, other) = (Arc::new("a1"), Arc::new("a2"));
        let letter = |it: &&str| it.chars().next();
        let number = |it: &&str| it.chars().last();
        assert_eq!(Change::Added(&one).with_new(letter), Some(&one));
        let update = Change::Updated { before: &one, after: &other };
        assert_eq!(update.with_new(letter), None);
        assert_eq!(update.with_new(number), Some(&other));
        assert_eq!(Change::Deleted(&one).with_new(number), None);
        assert_eq!(update.states().collect::<Vec<_>>(), [&one, &other]);
        assert_eq!((update.latest(), Change::Deleted(&one).latest()), (&other, &one));
    }
}
