//! Pulls: one download for all who ask for the same at the same time.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use futures_util::{FutureExt as _, TryStreamExt as _, stream};
use node_api::images::{Credentials, Error, Image};
use tokio::sync::mpsc;

use crate::digest::Digest;
use crate::index::{Names, Target};
use crate::manifest::{self, ConfigFile, Descriptor, Document, Index, Manifest};
use crate::reference::Reference;
use crate::registry::{self, Chunk, Client, Failure, Settings};
use crate::store::{Complete, Store, blocking, layer_error};
use crate::toolbox::{self, Toolbox};
use crate::unpack::{Budget, Expected};

const LAYERS_AT_ONCE: usize = 3;
/// Pieces between the network and the disk; each is as large as one read from a socket.
const CHUNKS_MAX: usize = 16;

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

    /// With each of the credentials that fit, until one is good enough.
    async fn pull_image(
        &self,
        reference: Reference,
        credentials: Vec<Credentials>,
    ) -> Result<Image, Error> {
        let candidates = registry::matching(credentials, reference.registry());
        let mut candidates = candidates.into_iter();
        let mut next = candidates.next();
        loop {
            let pull = Pulling::new(self.clone(), reference.clone(), next);
            next = candidates.next();
            match pull.run().await {
                Err(Error::Denied { .. }) if next.is_some() => {}
                outcome => return outcome,
            }
        }
    }
}

/// One pull with one set of credentials.
struct Pulling {
    store: Store,
    client: Client,
    reference: Reference,
    /// The reference, for messages.
    name: String,
}

/// What was being asked for.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: failed to do request: Get {address:?}")]
struct Asking {
    doing: String,
    address: String,
    #[source]
    failure: Failure,
}

impl Pulling {
    fn new(store: Store, reference: Reference, credentials: Option<Credentials>) -> Self {
        let config = &store.inner.config;
        let settings = Settings {
            certificates: config.certificates.clone(),
            insecure_registries: config.insecure_registries.clone(),
            limits: config.limits.clone(),
        };
        let client = Client::new(settings, &reference, credentials);
        Self { store, client, name: reference.to_string(), reference }
    }

    async fn run(&self) -> Result<Image, Error> {
        let _content = self.store.lock_content().await?;
        let (digest, content) = self.manifest(&self.reference.object(), None).await?;
        let (own_digest, own_content, manifest) = match self.parse(&content)? {
            Document::Manifest(manifest) => (digest.clone(), content, manifest),
            Document::Index(index) => self.choose(&index).await?,
        };
        // Beside a digest the tag says nothing: the registry was not asked for it.
        let tagged = self.reference.tagged().filter(|_| self.reference.digest().is_none());
        let names = Names {
            tags: tagged.into_iter().collect(),
            digests: vec![self.reference.with_digest(&digest)],
        };
        if let Some(image) = self.known(&manifest.config.digest, &names).await? {
            return Ok(image);
        }
        let config = self.config(&manifest.config).await?;
        let file = ConfigFile::parse(&config).and_then(|file| {
            file.validate(manifest.layers.len())?;
            Ok(file)
        });
        let diff_ids = file.map_err(|problem| self.unusable(problem))?.rootfs.diff_ids;
        let budget = self.store.inner.budget();
        stream::iter(manifest.layers.iter().zip(&diff_ids).map(Ok))
            .try_for_each_concurrent(LAYERS_AT_ONCE, |(layer, diff_id)| {
                self.layer(layer, diff_id, &budget)
            })
            .await?;
        let complete = Complete {
            config: config.to_vec(),
            manifest: Some((own_digest, own_content.to_vec())),
            layers: diff_ids,
            is_built_in: false,
        };
        self.store.commit(complete, names).await
    }

    fn unusable(&self, problem: String) -> Error {
        Error::Unusable { reference: self.name.clone(), problem }
    }

    fn parse(&self, content: &[u8]) -> Result<Document, Error> {
        manifest::parse_document(content).map_err(|problem| self.unusable(problem))
    }

    /// Compares with the digest that was asked for, if one was.
    async fn manifest(
        &self,
        object: &str,
        expected: Option<&Digest>,
    ) -> Result<(Digest, Bytes), Error> {
        let content = self.client.manifest(object).await.map_err(|failure| {
            let doing = format!("failed to resolve reference {:?}", self.name);
            self.failed(doing, self.client.manifest_address(object), failure)
        })?;
        let actual = Digest::of(&content);
        let expected = expected.or_else(|| self.reference.digest());
        self.validate_digest("manifest", expected.unwrap_or(&actual), &actual)?;
        Ok((actual, content))
    }

    async fn choose(&self, index: &Index) -> Result<(Digest, Bytes, Manifest), Error> {
        let chosen = index.choose(manifest::architecture());
        let chosen = &chosen.map_err(|problem| self.unusable(problem))?.digest;
        let (digest, content) = self.manifest(&chosen.to_string(), Some(chosen)).await?;
        match self.parse(&content)? {
            Document::Manifest(manifest) => Ok((digest, content, manifest)),
            Document::Index(_) => Err(self.unusable("it has an index in an index".to_owned())),
        }
    }

    /// The image is here already; it may get a new name.
    async fn known(&self, id: &Digest, names: &Names) -> Result<Option<Image>, Error> {
        let inner = self.store.inner.clone();
        let (target, id, names) = (Target::Id(id.clone()), id.clone(), names.clone());
        let Some(image) = inner.catalog.find(&target)? else { return Ok(None) };
        let is_named = names.tags.iter().all(|it| image.tags.contains(it))
            && names.digests.iter().all(|it| image.digests.contains(it));
        if is_named {
            return Ok(Some(image));
        }
        blocking(move || {
            inner.catalog.update(|index| {
                index.name(&id, names);
                Ok(())
            })?;
            inner.catalog.find(&target)
        })
        .await
    }

    async fn config(&self, descriptor: &Descriptor) -> Result<Bytes, Error> {
        let content = self.client.config(&descriptor.digest).await;
        let content = content.map_err(|failure| self.failed_blob(descriptor, failure))?;
        self.validate_digest("configuration", &descriptor.digest, &Digest::of(&content))?;
        Ok(content)
    }

    async fn layer(
        &self,
        layer: &Descriptor,
        diff_id: &Digest,
        budget: &Budget,
    ) -> Result<(), Error> {
        let Some(claim) = self.store.inner.layers.claim(diff_id).await else { return Ok(()) };
        let (chunks, rx) = mpsc::channel(CHUNKS_MAX);
        let expected = Expected { digest: Some(layer.digest.clone()), diff_id: diff_id.clone() };
        let (budget, name) = (budget.clone(), self.name.clone());
        let unpacking = blocking(move || {
            let source = Received { rx, current: Bytes::new(), has_ended: false };
            claim.unpack(source, &expected, &budget).map_err(|err| layer_error(&name, err))
        });
        // Both at once; what breaks the one ends the other.
        let (downloaded, unpacked) =
            futures_util::join!(self.client.blob(layer, chunks), unpacking);
        match downloaded {
            Ok(()) | Err(Failure::Unwanted) => unpacked,
            Err(failure) => Err(self.failed_blob(layer, failure)),
        }
    }

    fn validate_digest(&self, what: &str, expected: &Digest, actual: &Digest) -> Result<(), Error> {
        match expected == actual {
            true => Ok(()),
            false => Err(Error::WrongDigest {
                reference: self.name.clone(),
                what: what.to_owned(),
                expected: expected.to_string(),
                actual: actual.to_string(),
            }),
        }
    }

    fn failed_blob(&self, blob: &Descriptor, failure: Failure) -> Error {
        if failure.is_not_found() {
            return self.unusable(format!("its registry has no blob {}", blob.digest));
        }
        let address = self.client.blob_address(&blob.digest);
        self.failed("failed to copy".to_owned(), address, failure)
    }

    fn failed(&self, doing: String, address: String, failure: Failure) -> Error {
        let reference = self.name.clone();
        if let Some(message) = failure.denied() {
            return Error::Denied { reference, message };
        }
        if failure.is_not_found() {
            return Error::NotFound { reference };
        }
        let registry = self.reference.registry().to_owned();
        let source = Box::new(Asking { doing, address, failure });
        Error::Unavailable { reference, registry, source }
    }
}

/// The blocking end of a download.
struct Received {
    rx: mpsc::Receiver<Chunk>,
    current: Bytes,
    has_ended: bool,
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !self.has_ended {
            match self.rx.blocking_recv() {
                Some(Chunk::Bytes(chunk)) => self.current = chunk,
                Some(Chunk::End) => self.has_ended = true,
                // Without an end: it broke, or nobody wants it any more.
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let n = buffer.len().min(self.current.len());
        buffer[..n].copy_from_slice(&self.current.split_to(n));
        Ok(n)
    }
}
