//! Which images there are and what they are called. Pure; [`crate::catalog`] keeps it on disk.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::reference::Reference;

/// The layout of the file and of the directory around it.
pub(crate) const FORMAT: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) format: u32,
    /// By the digest of their configuration. Everything an image names is in the directory.
    pub(crate) images: BTreeMap<Digest, Entry>,
    /// `registry/path:tag`; every value is a key of `images`.
    pub(crate) tags: BTreeMap<String, Digest>,
    /// `registry/path@digest`; every value is a key of `images`.
    pub(crate) digests: BTreeMap<String, Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) manifest: Option<Digest>,
    /// The lowest first.
    pub(crate) layers: Vec<Digest>,
    pub(crate) size: u64,
    /// Made by us from our own binary; an outdated one goes by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_built_in: bool,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            format: FORMAT,
            images: BTreeMap::new(),
            tags: BTreeMap::new(),
            digests: BTreeMap::new(),
        }
    }
}

/// What a user may mean by one word.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Id(Digest),
    Named(Reference),
}

impl Target {
    /// An image id with or without `sha256:`, or a reference.
    pub(crate) fn parse(text: &str) -> Result<Self, node_api::images::Error> {
        let id = Digest::parse(text).or_else(|_| Digest::parse(&format!("sha256:{text}")));
        match id {
            Ok(id) => Ok(Self::Id(id)),
            Err(_) => Reference::parse(text).map(Self::Named),
        }
    }
}

impl Index {
    pub(crate) fn find(&self, target: &Target) -> Option<&Digest> {
        match target {
            Target::Id(id) => self.images.get_key_value(id).map(|(id, _)| id),
            Target::Named(reference) => match (reference.digest(), reference.tagged()) {
                (Some(digest), _) => self.digests.get(&reference.with_digest(digest)),
                (None, Some(tagged)) => self.tags.get(&tagged),
                (None, None) => None,
            },
        }
    }

    pub(crate) fn tags_of(&self, id: &Digest) -> Vec<String> {
        names_of(&self.tags, id)
    }

    pub(crate) fn digests_of(&self, id: &Digest) -> Vec<String> {
        names_of(&self.digests, id)
    }

    /// Names point to the image that got them last.
    pub(crate) fn add(&mut self, id: &Digest, entry: Entry, names: Names) {
        self.images.insert(id.clone(), entry);
        self.name(id, names);
    }

    /// Nothing happens if there is no such image.
    pub(crate) fn name(&mut self, id: &Digest, names: Names) {
        if !self.images.contains_key(id) {
            return;
        }
        self.tags.extend(names.tags.into_iter().map(|it| (it, id.clone())));
        self.digests.extend(names.digests.into_iter().map(|it| (it, id.clone())));
    }

    /// What is left of the image when `target` is taken away: `None` if that is nothing. Its
    /// digests are names that no user has given, so they do not keep it alone.
    pub(crate) fn without(&self, target: &Target) -> Option<Self> {
        let id = self.find(target)?;
        let Target::Named(reference) = target else { return None };
        let mut rest = self.clone();
        match (reference.digest(), reference.tagged()) {
            (Some(digest), _) => rest.digests.remove(&reference.with_digest(digest)),
            (None, tagged) => rest.tags.remove(&tagged.unwrap_or_default()),
        };
        match rest.tags_of(id).is_empty() {
            true => None,
            false => Some(rest),
        }
    }

    /// The image with all its names.
    pub(crate) fn remove(&mut self, id: &Digest) {
        self.images.remove(id);
        self.tags.retain(|_, it| it != id);
        self.digests.retain(|_, it| it != id);
    }

    pub(crate) fn layers(&self) -> BTreeSet<&Digest> {
        self.images.values().flat_map(|it| &it.layers).collect()
    }

    pub(crate) fn blobs(&self) -> BTreeSet<&Digest> {
        let manifests = self.images.values().filter_map(|it| it.manifest.as_ref());
        self.images.keys().chain(manifests).collect()
    }
}

fn names_of(names: &BTreeMap<String, Digest>, id: &Digest) -> Vec<String> {
    names.iter().filter(|(_, it)| *it == id).map(|(name, _)| name.clone()).collect()
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) tags: Vec<String>,
    pub(crate) digests: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::{Entry, Index, Names, Target};
    use crate::digest::Digest;

    fn index() -> (Index, Digest, String) {
        let id = Digest::of(b"one");
        let by_digest = format!("docker.io/library/a@{}", Digest::of(b"manifest"));
        let entry = Entry { manifest: None, layers: vec![], size: 1, is_built_in: false };
        let names = Names {
            tags: vec!["docker.io/library/a:latest".to_owned(), "quay.io/b:1".to_owned()],
            digests: vec![by_digest.clone()],
        };
        let mut index = Index::default();
        index.add(&id, entry, names);
        (index, id, by_digest)
    }

    #[test]
    fn images_are_found_by_every_name_they_have() {
        let (index, id, by_digest) = index();
        let check = |text: &str, is_found: bool| {
            let found = index.find(&Target::parse(text).unwrap());
            assert_eq!(found, is_found.then_some(&id), "{text}");
        };
        check("a", true);
        check("docker.io/library/a:latest", true);
        check("a:2", false);
        check("quay.io/b:1", true);
        check("quay.io/b", false);
        check(&by_digest, true);
        check(&by_digest.replace("/a@", "/a:any@"), true);
        check(&id.to_string(), true);
        check(id.hex(), true);
        check(&Digest::of(b"two").to_string(), false);
    }

    #[test]
    fn the_last_tag_takes_the_image_with_it() {
        let (index, id, by_digest) = index();
        let without = |index: &Index, text: &str| index.without(&Target::parse(text).unwrap());
        let rest = without(&index, "a").unwrap();
        assert_eq!(rest.tags_of(&id), ["quay.io/b:1"]);
        assert!(without(&rest, "quay.io/b:1").is_none());
        assert!(without(&index, id.hex()).is_none());
        assert_eq!(without(&index, &by_digest).unwrap().tags_of(&id).len(), 2);
    }
}
