//! Images on a faked node, and the registry they come from.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Node;
use super::state::State;
use crate::containers::FilesystemUsage;
use crate::images::{Credentials, Error, Image, ImageConfig, Images};
use crate::{Future, ImageId};

/// What every faked image weighs.
const SIZE: u64 = 1_000_000;

/// By normalized reference.
#[derive(Default)]
pub(super) struct Registry {
    offered: BTreeMap<String, Image>,
    on_node: BTreeMap<String, Image>,
}

/// An image in the registry that may be put on the node.
pub(super) struct Offered<'a> {
    registry: &'a mut Registry,
    reference: String,
    image: Image,
}

impl Offered<'_> {
    pub(super) fn image(self) -> Image {
        self.image
    }

    pub(super) fn on_node(self) -> Image {
        self.registry.on_node.insert(self.reference, self.image.clone());
        self.image
    }
}

impl State {
    pub(super) fn registry_add(
        &mut self,
        reference: &str,
        config: ImageConfig,
    ) -> Result<Offered<'_>, Error> {
        let normalized = normalize(reference)?;
        let digest = digest(&normalized);
        let (name, _) = split_tag(&normalized);
        let image = Image {
            id: ImageId::new(digest.clone()),
            tags: if normalized.contains('@') { Vec::new() } else { vec![normalized.clone()] },
            digests: vec![format!("{name}@{digest}")],
            size: SIZE,
            config,
        };
        self.registry.offered.insert(normalized.clone(), image.clone());
        Ok(Offered { registry: &mut self.registry, reference: normalized, image })
    }

    fn find_image(&self, reference: &str) -> Result<Option<(String, Image)>, Error> {
        let normalized =
            if reference.starts_with("sha256:") { None } else { Some(normalize(reference)?) };
        let matches = |key: &str, image: &Image| {
            image.id.as_str() == reference
                || normalized
                    .as_deref()
                    .is_some_and(|it| it == key || image.digests.iter().any(|digest| digest == it))
        };
        let mut images = self.registry.on_node.iter();
        let found = images.find(|(key, image)| matches(key, image));
        Ok(found.map(|(key, image)| (key.clone(), image.clone())))
    }
}

impl Images for Node {
    fn find(&self, reference: &str) -> Result<Option<Image>, Error> {
        Ok(self.state().find_image(reference)?.map(|(_, image)| image))
    }

    fn pull(&self, reference: &str, _credentials: Vec<Credentials>) -> Future<'_, Image> {
        let reference = reference.to_owned();
        Box::pin(async move {
            self.enter(format!("images.pull {reference}")).await?;
            let normalized = normalize(&reference)?;
            let mut state = self.state();
            let Some(image) = state.registry.offered.get(&normalized).cloned() else {
                return Err(Error::NotFound { reference: normalized }.into());
            };
            state.registry.on_node.insert(normalized, image.clone());
            Ok(image)
        })
    }

    fn list(&self) -> Vec<Image> {
        self.state().registry.on_node.values().cloned().collect()
    }

    fn remove(&self, reference: &str) -> Future<'_, ()> {
        let reference = reference.to_owned();
        Box::pin(async move {
            self.enter(format!("images.remove {reference}")).await?;
            let mut state = self.state();
            let Some((key, image)) = state.find_image(&reference)? else { return Ok(()) };
            if state.images_in_use().contains(&image.id) {
                return Err(Error::InUse(image.id).into());
            }
            state.registry.on_node.remove(&key);
            Ok(())
        })
    }

    fn filesystem(&self) -> Future<'_, FilesystemUsage> {
        let n_images = self.state().registry.on_node.len() as u64;
        let usage = FilesystemUsage {
            mountpoint: "/fake/images".into(),
            used_bytes: n_images * SIZE,
            inodes_used: n_images,
        };
        Box::pin(std::future::ready(Ok(usage)))
    }
}

/// `nginx` is `docker.io/library/nginx:latest`.
fn normalize(reference: &str) -> Result<String, Error> {
    let is_valid = |it: char| it.is_ascii_alphanumeric() || "/:@.-_".contains(it);
    let (name, _) = split_tag(reference);
    let problem = if name.split('/').any(str::is_empty) || !reference.chars().all(is_valid) {
        "invalid reference format"
    } else if name.chars().any(|it| it.is_ascii_uppercase()) {
        "repository name must be lowercase"
    } else {
        return Ok(with_defaults(reference));
    };
    Err(Error::InvalidName { reference: reference.to_owned(), problem: problem.to_owned() })
}

fn with_defaults(reference: &str) -> String {
    let (name, tag) = split_tag(reference);
    let tag = if tag.is_empty() { ":latest" } else { tag };
    match name.split_once('/') {
        None => format!("docker.io/library/{name}{tag}"),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => {
            format!("{name}{tag}")
        }
        Some(_) => format!("docker.io/{name}{tag}"),
    }
}

/// `a:5000/b:c` is `a:5000/b` and `:c`; a digest counts as a tag with `@`.
fn split_tag(reference: &str) -> (&str, &str) {
    if let Some(at) = reference.find('@') {
        return reference.split_at(at);
    }
    let last = reference.rfind('/').map_or(0, |it| it + 1);
    match reference[last..].find(':') {
        Some(colon) => reference.split_at(last + colon),
        None => (reference, ""),
    }
}

/// Not a digest of anything, but the same for the same reference.
fn digest(reference: &str) -> String {
    if let Some((_, digest)) = reference.split_once('@') {
        return digest.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    let words = (0..4).map(|_| {
        reference.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    });
    format!("sha256:{}", words.collect::<String>())
}
