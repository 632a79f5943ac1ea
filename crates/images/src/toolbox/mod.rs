//! The image that the binary offers of itself, `xebec.local/toolbox`: the program, what the loader
//! needs to start it, and little else. Never pulled. It is described at once, from the files' sizes
//! and times, and made when a container needs it.

mod elf;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use node_api::ImageId;
use node_api::images::{Error, Image};

use crate::catalog::disk;
use crate::digest::Digest;
use crate::directory::make_directory;
use crate::manifest::{ConfigFile, RootFs, RunConfig, architecture};
use crate::reference::Reference;

/// Nothing of this registry is ever looked for on a network.
pub(crate) const REGISTRY: &str = "xebec.local";
const PATH: &str = "toolbox";
/// Sorted, as in the index.
const TAGS: &[&str] = &[env!("CARGO_PKG_VERSION"), "latest"];

/// Where the loader looks when it has no cache (ld.so(8)); those of Debian, then of others.
const LIBRARY_DIRECTORIES: &[&str] = &[
    #[cfg(target_arch = "x86_64")]
    "/lib/x86_64-linux-gnu",
    #[cfg(target_arch = "x86_64")]
    "/usr/lib/x86_64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/lib/aarch64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
const LIBRARIES_MAX: usize = 100;

const DIRECTORIES: &[(&str, u32)] = &[
    ("bin", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("var", 0o755),
];
const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/toolbox\nnobody:x:65534:65534:nobody:/:/bin/toolbox\n",
    ),
    ("etc/group", "root:x:0:\nnobody:x:65534:\n"),
    ("etc/nsswitch.conf", "hosts: files dns\n"),
];

pub(crate) struct Toolbox {
    program: PathBuf,
    /// Names in `/bin` that lead to the program.
    tools: Vec<String>,
    described: Mutex<Option<Arc<Described>>>,
}

/// What the image is, for one state of the files it is made of.
pub(crate) struct Described {
    pub(crate) id: Digest,
    /// The content that `id` is the digest of.
    pub(crate) config: Vec<u8>,
    pub(crate) layer: Digest,
    image: Image,
    stamp: Stamp,
    sources: Vec<Source>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

#[derive(Debug)]
struct Source {
    from: PathBuf,
    /// In the image.
    to: PathBuf,
    stamp: Stamp,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let it = fs::metadata(path)?;
        Ok(Self { inode: it.ino(), size: it.size(), modified: (it.mtime(), it.mtime_nsec()) })
    }
}

impl Toolbox {
    pub(crate) fn new(program: PathBuf, tools: Vec<String>) -> Self {
        Self { program, tools, described: Mutex::new(None) }
    }

    pub(crate) fn is_named(reference: &Reference) -> bool {
        reference.registry() == REGISTRY
            && reference.path() == PATH
            && reference.digest().is_none()
            && reference.tag().is_some_and(|it| TAGS.contains(&it))
    }

    pub(crate) fn tags() -> Vec<String> {
        TAGS.iter().map(|it| format!("{REGISTRY}/{PATH}:{it}")).collect()
    }

    /// Cheap: nothing but the program's state is looked at if that is the same as before.
    pub(crate) fn describe(&self) -> Result<Arc<Described>, Error> {
        let describing = || disk(format!("describing the image of {}", self.program.display()));
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match (Stamp::of(&self.program), described.as_ref()) {
            (Ok(stamp), Some(known)) if known.stamp == stamp => return Ok(known.clone()),
            // An upgrade is under way, or the program was removed under us: what it was made of is
            // still good.
            (Err(_), Some(known)) => return Ok(known.clone()),
            (stamp, _) => stamp.map_err(describing())?,
        };
        let fresh = Arc::new(self.describe_files(stamp).map_err(describing())?);
        *described = Some(fresh.clone());
        Ok(fresh)
    }

    fn describe_files(&self, stamp: Stamp) -> io::Result<Described> {
        let mut sources = vec![Source {
            from: self.program.clone(),
            to: "bin/toolbox".into(),
            stamp: stamp.clone(),
        }];
        for path in libraries(&self.program)? {
            let to = path.strip_prefix("/").unwrap_or(&path).to_owned();
            sources.push(Source { stamp: Stamp::of(&path)?, from: path, to });
        }
        // Not a hash of the contents: reading 30 MB would take longer than starting a pod.
        let identity = format!("toolbox 1 {sources:?} {:?}", self.tools);
        let layer = Digest::of(identity.as_bytes());
        let config = config_file(&layer);
        let content = serde_json::to_vec(&config)?;
        let id = Digest::of(&content);
        let image = Image {
            id: ImageId::new(id.to_string()),
            tags: Self::tags(),
            digests: Vec::new(),
            size: sources.iter().map(|it| it.stamp.size).sum(),
            config: config.into_image_config(),
        };
        Ok(Described { id, config: content, layer, image, stamp, sources })
    }

    /// Puts the files into a directory; returns their size. Blocks.
    pub(crate) fn make(&self, described: &Described, root: &Path) -> Result<u64, Error> {
        let make = || {
            for (path, mode) in DIRECTORIES {
                make_directory(&root.join(path), *mode)?;
            }
            for (path, content) in FILES {
                fs::write(root.join(path), content)?;
            }
            for Source { from, to, .. } in &described.sources {
                let to = root.join(to);
                to.parent().map_or(Ok(()), |parent| make_directory(parent, 0o755))?;
                place(from, &to, *from == self.program)?;
            }
            for tool in &self.tools {
                std::os::unix::fs::symlink("toolbox", root.join("bin").join(tool))?;
            }
            Ok(())
        };
        make().map_err(disk("making the toolbox image"))?;
        Ok(described.image.size)
    }
}

impl Described {
    pub(crate) fn image(&self) -> Image {
        self.image.clone()
    }
}

/// The program is large and the same file serves: linked where one filesystem has both. Libraries
/// belong to the system's packages and are copied.
fn place(from: &Path, to: &Path, is_program: bool) -> io::Result<()> {
    if is_program && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map(|_| ())
}

/// The loader and every library, where the loader will look for them.
fn libraries(program: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let needs = elf::needs(&File::open(program)?)?;
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut open = needs.libraries;
    let run_paths: Vec<String> =
        needs.run_paths.into_iter().filter(|it| it.starts_with('/')).collect();
    while let Some(name) = open.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let directories =
            run_paths.iter().map(String::as_str).chain(LIBRARY_DIRECTORIES.iter().copied());
        let mut candidates = directories.map(|it| Path::new(it).join(&name));
        let Some(path) = candidates.find(|it| it.is_file()) else {
            let problem = format!("library {name} is nowhere to be found");
            return Err(io::Error::new(io::ErrorKind::NotFound, problem));
        };
        open.extend(elf::needs(&File::open(&path)?)?.libraries);
        found.insert(name, path);
        if found.len() > LIBRARIES_MAX {
            return Err(io::Error::other(format!("more than {LIBRARIES_MAX} libraries")));
        }
    }
    Ok(found.into_values().chain(needs.loader.map(PathBuf::from)).collect())
}

fn config_file(layer: &Digest) -> ConfigFile {
    let texts = |texts: &[&str]| Some(texts.iter().map(|it| (*it).to_owned()).collect());
    let port = BTreeMap::from([("8080/tcp".to_owned(), serde_json::json!({}))]);
    ConfigFile {
        architecture: architecture().to_owned(),
        os: "linux".to_owned(),
        config: Some(RunConfig {
            env: texts(&["PATH=/bin"]),
            entrypoint: texts(&["/bin/toolbox"]),
            cmd: texts(&["http", "--port", "8080"]),
            working_dir: Some("/".to_owned()),
            exposed_ports: Some(port),
            ..RunConfig::default()
        }),
        rootfs: RootFs { kind: "layers".to_owned(), diff_ids: vec![layer.clone()] },
    }
}
