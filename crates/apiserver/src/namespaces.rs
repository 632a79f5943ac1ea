//! Namespaces that the server makes itself, for whoever writes into one that is missing.

use std::sync::{Arc, OnceLock, Weak};

use admission::Provisioner;
use api::core::Namespace;
use apimachinery::ApiError;
use futures_util::future::BoxFuture;

use crate::own_calls;
use crate::pipeline::Core;

/// Plugins are part of the server that they need for this: it is given when it is there.
#[derive(Default)]
pub(crate) struct Namespaces(OnceLock<Weak<Core>>);

impl Namespaces {
    pub(crate) fn are_in(&self, core: &Arc<Core>) {
        let _ = self.0.set(Arc::downgrade(core));
    }
}

impl Provisioner for Namespaces {
    fn make<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let gone = || ApiError::internal("making a namespace while the server is not there");
            let core = self.0.get().and_then(Weak::upgrade).ok_or_else(gone)?;
            let mut object = Namespace::default();
            object.metadata.name = Some(namespace.to_owned());
            own_calls::create(&core, object).await
        })
    }
}
