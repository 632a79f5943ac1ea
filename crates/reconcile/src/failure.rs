//! A call to the API that failed, and the failures that are none.

use api::Resource;
use apimachinery::{ApiError, ObjectKey};

/// What a controller could not do, to what, and why.
#[derive(Debug, thiserror::Error)]
#[error("{action} {kind} {key}")]
pub struct Failed {
    /// In the imperative: `create`, `set the taints of`.
    action: &'static str,
    kind: String,
    key: ObjectKey,
    #[source]
    source: ApiError,
}

impl Failed {
    /// For `map_err`: `api.update(it).await.map_err(Failed::to::<Pod>("update", &key))`.
    pub fn to<T: Resource>(
        action: &'static str,
        key: &ObjectKey,
    ) -> impl FnOnce(ApiError) -> Self + use<T> {
        Self::to_any(action, T::FACTS.kind, key)
    }

    /// The same for a kind that is known at run time only.
    pub fn to_any<S: Into<String>>(
        action: &'static str,
        kind: S,
        key: &ObjectKey,
    ) -> impl FnOnce(ApiError) -> Self + use<S> {
        let (kind, key) = (kind.into(), key.clone());
        move |source| Self { action, kind, key, source }
    }

    /// The server's words.
    pub fn cause(&self) -> &ApiError {
        &self.source
    }
}

/// Answers that leave nothing to do: somebody was quicker. Each makes `None` of one of them.
pub trait Outcome<T>: Sized {
    fn unless(self, is_nothing: impl Fn(&ApiError) -> bool) -> Result<Option<T>, ApiError>;

    /// The object is gone.
    fn unless_gone(self) -> Result<Option<T>, ApiError> {
        self.unless(ApiError::is_not_found)
    }

    /// The object is gone, or is another one of that name: for writes with the uid of the one that
    /// was meant.
    fn unless_replaced(self) -> Result<Option<T>, ApiError> {
        self.unless(|it| it.is_not_found() || it.is_conflict())
    }

    /// The object is there already: an earlier create is not in the cache yet. Or its namespace
    /// ended between our look and our write, and there is nothing left to do in it.
    fn unless_there_or_over(self) -> Result<Option<T>, ApiError> {
        self.unless(|it| it.is_already_exists() || is_namespace_gone(it))
    }
}

impl<T> Outcome<T> for Result<T, ApiError> {
    fn unless(self, is_nothing: impl Fn(&ApiError) -> bool) -> Result<Option<T>, ApiError> {
        match self {
            Ok(it) => Ok(Some(it)),
            Err(err) if is_nothing(&err) => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// The namespace is being deleted: creating there is over, and no failure of ours.
pub fn is_namespace_ending(err: &ApiError) -> bool {
    let causes = err.details().and_then(|it| it.causes.as_ref());
    causes.into_iter().flatten().any(|it| it.reason.as_deref() == Some("NamespaceTerminating"))
}

/// The namespace ended between our look and our write: there is nothing left to do in it.
pub fn is_namespace_gone(err: &ApiError) -> bool {
    err.is_not_found() || is_namespace_ending(err)
}

#[cfg(test)]
mod tests {
    use api::core::pod::Pod;
    use apimachinery::{ApiError, GroupResource, ObjectKey};

    use super::{Failed, Outcome as _};

    fn pods() -> GroupResource {
        GroupResource::new("", "pods")
    }

    #[test]
    fn a_failure_says_what_was_done_to_what_and_its_chain_says_why() {
        let refused: Result<(), ApiError> = Err(ApiError::modified(&pods(), "web"));
        let key = ObjectKey::new("default", "web");
        let failed = refused.map_err(Failed::to::<Pod>("evict", &key)).unwrap_err();
        assert_eq!(failed.to_string(), "evict Pod default/web");
        let chain = stdx::error_chain(&failed);
        assert!(
            chain.starts_with("evict Pod default/web: ") && chain.contains("modified"),
            "{chain}"
        );
    }

    #[test]
    fn who_was_too_late_has_nothing_to_do() {
        let conflict = || Err::<(), _>(ApiError::modified(&pods(), "web"));
        assert!(conflict().unless_gone().is_err());
        assert_eq!(conflict().unless_replaced().unwrap(), None);
        assert_eq!(Ok(1).unless_gone().unwrap(), Some(1));
    }
}
