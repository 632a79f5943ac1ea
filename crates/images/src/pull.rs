//! Pulls: one download for all who ask for the same at the same time.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use node_api::images::{Credentials, Error, Image};

use crate::reference::Reference;
use crate::store::Store;
use crate::toolbox::{self, Toolbox};

type Outcome = Result<Image, Arc<Error>>;
type Pull = BoxFuture<'static, Outcome>;

/// Pulls under way. They are driven by those who wait, so a pull nobody waits for any more stops.
#[derive(Default)]
pub(crate) struct Flights(Mutex<Vec<Flight>>);

struct Flight {
    reference: String,
    /// Who may not pull with theirs must not get it through another's.
    credentials: Vec<Credentials>,
    pull: WeakShared<Pull>,
}

impl Flights {
    fn join(
        &self,
        reference: &str,
        credentials: &[Credentials],
        start: impl FnOnce() -> Pull,
    ) -> Shared<Pull> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|it| it.pull.upgrade().is_some());
        let same = flights
            .iter()
            .find(|it| it.reference == reference && it.credentials == credentials)
            .and_then(|it| it.pull.upgrade());
        same.unwrap_or_else(|| {
            let pull = start().shared();
            flights.extend(pull.downgrade().map(|weak| Flight {
                reference: reference.to_owned(),
                credentials: credentials.to_vec(),
                pull: weak,
            }));
            pull
        })
    }
}

impl Store {
    pub(crate) async fn pull_shared(
        &self,
        reference: &str,
        credentials: Vec<Credentials>,
    ) -> Result<Image, Error> {
        let reference = Reference::parse(reference)?;
        if reference.registry() == toolbox::REGISTRY {
            return self.pull_built_in(&reference).await;
        }
        let name = reference.to_string();
        let store = self.clone();
        let start_credentials = credentials.clone();
        let pull = self.inner.flights.join(&name, &credentials, || {
            async move { store.pull_image(reference, start_credentials).await.map_err(Arc::new) }
                .boxed()
        });
        pull.await.map_err(|err| Arc::try_unwrap(err).unwrap_or_else(|err| err.share()))
    }

    async fn pull_built_in(&self, reference: &Reference) -> Result<Image, Error> {
        match self.inner.describe_toolbox()?.filter(|_| Toolbox::is_named(reference)) {
            Some(described) => {
                self.make_toolbox(described.clone()).await?;
                Ok(described.image())
            }
            None => Err(Error::NotFound { reference: reference.to_string() }),
        }
    }

    async fn pull_image(
        &self,
        reference: Reference,
        _credentials: Vec<Credentials>,
    ) -> Result<Image, Error> {
        Err(Error::NotFound { reference: reference.to_string() })
    }
}
