//! Archives of images: OCI layouts and what `docker save` writes, as tar, compressed or not. Only
//! reads; digests of documents are checked here, those of layers when they are unpacked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use node_api::images::Error;
use serde::Deserialize;

use crate::catalog::disk;
use crate::digest::Digest;
use crate::directory::Directory;
use crate::manifest::{self, ConfigFile, Descriptor, Document, Index, Manifest};
use crate::reference::Reference;
use crate::unpack::{Budget, Entries, Kind, decompress};

const DOCUMENT_MAX: u64 = 8 << 20;
/// Links between members, in archives of old dockers.
const LINKS_MAX: usize = 8;
const NAME: &str = "io.containerd.image.name";
const NAME_OCI: &str = "org.opencontainers.image.ref.name";

/// One image in an archive.
pub(crate) struct Packed {
    pub(crate) names: Vec<Reference>,
    /// Docker's archives have none.
    pub(crate) manifest: Option<(Digest, Vec<u8>)>,
    pub(crate) config: Vec<u8>,
    /// The lowest first; the digest of the stream, if it is known.
    pub(crate) layers: Vec<(Option<Digest>, Section)>,
}

/// A piece of a file.
#[derive(Clone)]
pub(crate) struct Section {
    file: Arc<File>,
    at: u64,
    left: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.file.read_at(&mut buffer[..n], self.at)?;
        self.at += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}

struct Archive {
    file: Arc<File>,
    members: BTreeMap<String, Member>,
    /// For messages.
    path: String,
}

enum Member {
    /// Where it is, and how long.
    File(u64, u64),
    /// To another member, by its whole path.
    Link(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Blocks.
pub(crate) fn read(
    path: &Path,
    directory: &Directory,
    budget: &Budget,
) -> Result<Vec<Packed>, Error> {
    let archive = Archive::open(path, directory, budget)?;
    if archive.members.contains_key("index.json") {
        return archive.read_oci();
    }
    if archive.members.contains_key("manifest.json") {
        return archive.read_docker();
    }
    Err(archive.unusable("it has neither index.json nor manifest.json: not an image archive"))
}

impl Archive {
    /// A compressed archive is first unpacked beside the store, because its members are needed in
    /// an order of our own.
    fn open(path: &Path, directory: &Directory, budget: &Budget) -> Result<Self, Error> {
        let opening = || disk(format!("reading {}", path.display()));
        let mut file = File::open(path).map_err(opening())?;
        let mut first = [0; 4];
        let n = file.read_at(&mut first, 0).map_err(opening())?;
        if crate::unpack::is_compressed(&first[..n]) {
            let scratch = directory.scratch();
            let plain = decompress(BufReader::new(file)).map_err(opening())?;
            file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&scratch)
                .map_err(opening())?;
            // It lives as long as it is open.
            std::fs::remove_file(&scratch).map_err(opening())?;
            io::copy(&mut budget.limit(plain), &mut file).map_err(opening())?;
        }
        let file = Arc::new(file);
        let size = file.metadata().map_err(opening())?.len();
        let whole = Section { file: file.clone(), at: 0, left: size };
        let path = path.display().to_string();
        let mut archive = Self { file, members: BTreeMap::new(), path };
        archive.scan(whole, budget)?;
        Ok(archive)
    }

    fn scan(&mut self, whole: Section, budget: &Budget) -> Result<(), Error> {
        let mut entries = Entries::new(BufReader::with_capacity(1 << 20, whole));
        loop {
            let entry = match entries.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                Err(err) => return Err(self.unusable(&err.to_string())),
            };
            if self.members.len() as u64 >= budget.entries_max() {
                return Err(self.unusable("it has too many members"));
            }
            let Some(path) = clean(&String::from_utf8_lossy(&entry.path)) else { continue };
            let link = String::from_utf8_lossy(&entry.link);
            let member = match entry.kind {
                Kind::File => Member::File(entry.position, entry.size),
                Kind::HardLink => Member::Link(clean(&link).unwrap_or_default()),
                Kind::SymbolicLink => {
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    Member::Link(clean(&format!("{parent}/{link}")).unwrap_or_default())
                }
                _ => continue,
            };
            self.members.insert(path, member);
        }
    }

    fn unusable(&self, problem: &str) -> Error {
        Error::Unusable { reference: self.path.clone(), problem: problem.to_owned() }
    }

    fn section(&self, path: &str) -> Result<Section, Error> {
        let mut path = path;
        for _ in 0..LINKS_MAX {
            match self.members.get(path) {
                Some(Member::File(at, left)) => {
                    return Ok(Section { file: self.file.clone(), at: *at, left: *left });
                }
                Some(Member::Link(target)) => path = target,
                None => return Err(self.unusable(&format!("{path} is missing in it"))),
            }
        }
        Err(self.unusable(&format!("{path} is a link to itself")))
    }

    fn document(&self, path: &str) -> Result<Vec<u8>, Error> {
        let section = self.section(path)?;
        if section.left > DOCUMENT_MAX {
            return Err(self.unusable(&format!("{path} has more than {DOCUMENT_MAX} bytes")));
        }
        let mut content = Vec::new();
        section
            .take(DOCUMENT_MAX)
            .read_to_end(&mut content)
            .map_err(disk(format!("reading {}", self.path)))?;
        Ok(content)
    }

    fn parse<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.document(path)?)
            .map_err(|err| self.unusable(&format!("{path} cannot be read: {err}")))
    }

    fn verified(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let content = self.document(&blob(digest))?;
        let actual = Digest::of(&content);
        match actual == *digest {
            true => Ok(content),
            false => Err(Error::WrongDigest {
                reference: self.path.clone(),
                what: blob(digest),
                expected: digest.to_string(),
                actual: actual.to_string(),
            }),
        }
    }

    fn read_oci(&self) -> Result<Vec<Packed>, Error> {
        let index: Index = self.parse("index.json")?;
        let mut images: BTreeMap<Digest, Packed> = BTreeMap::new();
        for descriptor in &index.manifests {
            // An index of one image for several machines may stand here without a second index
            // around it.
            let single = Index { manifests: vec![descriptor.clone()] };
            let is_index = [manifest::OCI_INDEX, manifest::DOCKER_LIST]
                .contains(&descriptor.media_type.as_str());
            if !is_index && single.choose(manifest::architecture()).is_err() {
                continue;
            }
            let (digest, content, manifest) = self.resolve(&descriptor.digest, 0)?;
            let names = self.names(descriptor)?;
            if let Some(known) = images.get_mut(&digest) {
                known.names.extend(names);
                continue;
            }
            let config = self.verified(&manifest.config.digest)?;
            let layers = manifest
                .layers
                .iter()
                .map(|layer| Ok((Some(layer.digest.clone()), self.section(&blob(&layer.digest))?)));
            let layers = layers.collect::<Result<_, Error>>()?;
            let packed =
                Packed { names, manifest: Some((digest.clone(), content)), config, layers };
            images.insert(digest, packed);
        }
        if images.is_empty() {
            let problem = index.choose(manifest::architecture()).err();
            return Err(self.unusable(&problem.unwrap_or_else(|| "it has no image".to_owned())));
        }
        Ok(images.into_values().collect())
    }

    /// The manifest for this machine.
    fn resolve(&self, digest: &Digest, depth: u8) -> Result<(Digest, Vec<u8>, Manifest), Error> {
        let content = self.verified(digest)?;
        let document = manifest::parse_document(&content);
        match document.map_err(|problem| self.unusable(&problem))? {
            Document::Manifest(manifest) => Ok((digest.clone(), content, manifest)),
            Document::Index(_) if depth > 0 => Err(self.unusable("it has an index in an index")),
            Document::Index(index) => {
                let chosen = index.choose(manifest::architecture());
                let chosen = chosen.map_err(|problem| self.unusable(&problem))?;
                self.resolve(&chosen.digest, depth + 1)
            }
        }
    }

    /// OCI's annotation is a whole name or, with many tools, a tag alone, which names nothing.
    fn names(&self, descriptor: &Descriptor) -> Result<Vec<Reference>, Error> {
        let oci = || descriptor.annotations.get(NAME_OCI).filter(|it| it.contains(['/', ':']));
        let name = descriptor.annotations.get(NAME).or_else(oci);
        name.map(|it| Reference::parse(it)).into_iter().collect()
    }

    fn read_docker(&self) -> Result<Vec<Packed>, Error> {
        let images: Vec<DockerImage> = self.parse("manifest.json")?;
        if images.is_empty() {
            return Err(self.unusable("it has no image"));
        }
        let packed = |image: DockerImage| {
            let path = |it: &str| clean(it).unwrap_or_default();
            let names = image.repo_tags.unwrap_or_default();
            let names = names.iter().map(|it| Reference::parse(it));
            let layers = image.layers.iter().map(|it| Ok((None, self.section(&path(it))?)));
            Ok(Packed {
                names: names.collect::<Result<_, _>>()?,
                manifest: None,
                config: self.document(&path(&image.config))?,
                layers: layers.collect::<Result<_, Error>>()?,
            })
        };
        images.into_iter().map(packed).collect()
    }
}

impl Packed {
    /// Its configuration, and that it fits this machine and its layers.
    pub(crate) fn validate(&self) -> Result<ConfigFile, String> {
        let config = ConfigFile::parse(&self.config)?;
        config.validate(self.layers.len())?;
        Ok(config)
    }
}

fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Without `.` and `..`; `None` for paths that lead out, which nothing in an archive refers to.
fn clean(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
