//! Images over CRI.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ::images::Reference;
use grpc::{Code, Status};
use node_api::containers::FilesystemUsage;
use node_api::images::{Credentials, Error, Image, ImageConfig, Images};
use node_api::{Future, ImageId};

use crate::error::Failure;
use crate::link::Repeat;
use crate::messages as cri;
use crate::{Cri, Inner, convert, methods};

/// The runtime has time-outs of its own for a registry that says nothing.
const TIMEOUT_PULL: Duration = Duration::from_secs(3600);

impl Images for Cri {
    fn find(&self, reference: &str) -> Result<Option<Image>, Error> {
        self.inner.find_image(reference)
    }

    fn pull(&self, reference: &str, credentials: Vec<Credentials>) -> Future<'_, Image> {
        let reference = reference.to_owned();
        Box::pin(async move { self.inner.pull(&reference, credentials).await })
    }

    fn list(&self) -> Vec<Image> {
        self.inner.images().to_vec()
    }

    fn remove(&self, reference: &str) -> Future<'_, ()> {
        let reference = reference.to_owned();
        Box::pin(async move { self.inner.remove_image(&reference).await })
    }

    fn filesystem(&self) -> Future<'_, FilesystemUsage> {
        Box::pin(async move { self.inner.image_filesystem().await })
    }
}

/// The runtime itself looks after an image's command and environment; a kubelet needs its user.
pub(crate) fn image(image: &cri::Image) -> Image {
    let user = match &image.uid {
        Some(uid) => uid.value.to_string(),
        None => image.username.clone(),
    };
    Image {
        id: ImageId::new(image.id.clone()),
        tags: image.repo_tags.clone(),
        digests: image.repo_digests.clone(),
        size: image.size,
        config: ImageConfig { user, ..ImageConfig::default() },
    }
}

impl Inner {
    fn images(&self) -> Arc<Vec<Image>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn image(&self, id: &ImageId) -> Option<Image> {
        self.images().iter().find(|it| it.id == *id).cloned()
    }

    fn find_image(&self, reference: &str) -> Result<Option<Image>, Error> {
        let images = self.images();
        let by_id = |it: &&Image| it.id.as_str() == reference;
        if reference.starts_with("sha256:") {
            return Ok(images.iter().find(by_id).cloned());
        }
        let parsed = Reference::parse(reference)?;
        let name = parsed.to_string();
        // With a digest that alone counts.
        let digest = parsed.digest().map(|it| format!("{}@{it}", parsed.repository()));
        let is_named = |it: &&Image| match &digest {
            Some(digest) => it.digests.contains(digest),
            None => it.tags.contains(&name),
        };
        Ok(images.iter().find(is_named).cloned())
    }

    async fn pull(
        &self,
        reference: &str,
        credentials: Vec<Credentials>,
    ) -> Result<Image, node_api::Error> {
        let parsed = Reference::parse(reference)?;
        let registry = parsed.registry();
        let fits = |it: &Credentials| it.registry.as_deref().is_none_or(|it| it == registry);
        let mut auths: Vec<Option<cri::AuthConfig>> =
            credentials.into_iter().filter(fits).map(|it| Some(auth(it, registry))).collect();
        if auths.is_empty() {
            auths.push(None);
        }
        let spec = cri::ImageSpec { image: parsed.to_string(), ..Default::default() };
        let mut last = None;
        // The first that the registry takes.
        for auth in auths {
            let question = cri::PullImageRequest { image: Some(spec.clone()), auth };
            let method = methods::PULL_IMAGE;
            match self.link.call_within(TIMEOUT_PULL, method, &question, Repeat::Safe).await {
                Ok(_) => return self.pulled(&spec, reference).await,
                Err(err) => last = Some(err),
            }
        }
        let err = last.expect("there is at least one attempt");
        Err(pull_error(&parsed.to_string(), registry, err))
    }

    async fn pulled(
        &self,
        spec: &cri::ImageSpec,
        reference: &str,
    ) -> Result<Image, node_api::Error> {
        let question = cri::ImageRequest { image: Some(spec.clone()) };
        let doing = "looking at a pulled image";
        let answer = self.link.call(methods::IMAGE_STATUS, &question, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_node(doing))?;
        let found = answer.image.as_ref().map(image);
        self.look_at_images().await.map_err(|err| err.into_node(doing))?;
        Ok(found.ok_or_else(|| Error::NotFound { reference: reference.to_owned() })?)
    }

    async fn remove_image(&self, reference: &str) -> Result<(), node_api::Error> {
        let Some(found) = self.find_image(reference)? else { return Ok(()) };
        let containers = self.book.containers(None);
        let mut used = containers.iter().flat_map(|it| it.config.images());
        if used.any(|it| *it == found.id) {
            return Err(Error::InUse(found.id).into());
        }
        // CRI removes an image with all its names, whichever is given.
        if !reference.starts_with("sha256:") && found.tags.len() > 1 {
            return Err(node_api::Error::unsupported("removing one of an image's several names"));
        }
        let name = match reference.starts_with("sha256:") {
            true => reference.to_owned(),
            false => Reference::parse(reference)?.to_string(),
        };
        let spec = cri::ImageSpec { image: name, ..Default::default() };
        let question = cri::ImageRequest { image: Some(spec) };
        let doing = "removing an image";
        match self.link.call(methods::REMOVE_IMAGE, &question, Repeat::Safe).await {
            Err(err) if !err.is(Code::NotFound) => return Err(err.into_error(doing)),
            Ok(_) | Err(_) => {}
        }
        self.look_at_images().await.map_err(|err| err.into_node(doing))
    }

    async fn image_filesystem(&self) -> Result<FilesystemUsage, node_api::Error> {
        let doing = "telling what images take";
        let answer = self.link.call(methods::IMAGE_FS_INFO, &cri::Empty {}, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_error(doing))?;
        let first = answer.image_filesystems.first();
        Ok(first.map(convert::filesystem).unwrap_or_default())
    }
}

fn auth(credentials: Credentials, registry: &str) -> cri::AuthConfig {
    cri::AuthConfig {
        username: credentials.user,
        password: credentials.password,
        server_address: registry.to_owned(),
    }
}

/// Runtimes put what a registry said into words of their own: these are containerd's and CRI-O's.
fn pull_error(reference: &str, registry: &str, failure: Failure) -> node_api::Error {
    let Some(Status { code, message }) = failure.status().cloned() else {
        return failure.into_node("pulling an image");
    };
    let reference = reference.to_owned();
    let says = |texts: &[&str]| texts.iter().any(|it| message.contains(it));
    if says(&["pull access denied", "authorization failed", "unauthorized", "denied:"]) {
        return Error::Denied { reference, message }.into();
    }
    if code == Code::NotFound || says(&[": not found", "manifest unknown", "name unknown"]) {
        return Error::NotFound { reference }.into();
    }
    if says(&["no match for platform", "unsupported media type"]) {
        return Error::Unusable { reference, problem: message }.into();
    }
    let registry = registry.to_owned();
    Error::Unavailable { reference, registry, source: Box::new(failure) }.into()
}

#[cfg(test)]
mod tests {
    use grpc::channel::CallError;

    use super::*;

    #[test]
    fn what_a_registry_said_is_told_apart() {
        let check = |code: Code, message: &str, expected: &str| {
            let failure = Failure::Call(CallError::Status(Status::new(code, message)));
            let error = pull_error("r.io/a:1", "r.io", failure);
            let node_api::Error::Image(error) = error else { panic!("{error:?}") };
            let shown = format!("{error:?}");
            assert!(shown.starts_with(expected), "{shown}");
        };
        let unpack = "failed to pull and unpack image \"r.io/a:1\": ";
        check(Code::NotFound, unpack, "NotFound");
        check(Code::Unknown, &format!("{unpack}r.io/a:1: not found"), "NotFound");
        check(Code::Unknown, &format!("{unpack}pull access denied"), "Denied");
        check(Code::Unknown, &format!("{unpack}dial tcp: connection refused"), "Unavailable");
        check(Code::Unknown, &format!("{unpack}no match for platform in manifest"), "Unusable");
    }
}
