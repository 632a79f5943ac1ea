//! `--admission-control-config-file`: what plugins are told beside being switched on.
//!
//! Promise: what is read is what will be. A file that cannot be read as what it says it is, a field
//! that nobody has and a value that cannot be are refused, with file, line and field: when the server
//! starts, and when files change, which then leave what there was.

mod document;
mod error;
mod kubeconfig;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;

pub use self::error::Error;
pub(crate) use self::kubeconfig::Kubeconfig;

use self::document::{Document, Place, Unread};
use crate::plugins;

const API_VERSIONS: &[&str] = &["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
const KIND: &str = "AdmissionConfiguration";
/// A file that is this plugin's alone, from before there were lists of plugins.
const UNLISTED: (&str, &str) = ("podNodeSelectorPluginConfig", "PodNodeSelector");

/// What one plugin can be told. Nothing is said by being `Default`.
pub(crate) trait Settings: DeserializeOwned {
    const PLUGIN: &'static str;
    /// Any of these `apiVersion` and `kind`; none where the file has neither.
    const KINDS: &'static [(&'static str, &'static str)];

    fn api_version_and_kind(&self) -> (&str, &str);
}

#[derive(Clone, Debug)]
struct File {
    path: PathBuf,
    text: String,
}

/// Where the settings of a plugin are.
#[derive(Clone, Debug)]
enum Source {
    /// All of a file.
    File(File),
    /// In the list of plugins.
    Within(File),
}

/// How files are read.
type Read = dyn Fn(&Path) -> io::Result<String> + Send + Sync;

/// The files, as they are. Whether a plugin can take what is there for it is asked by `settings`.
#[derive(Clone, Default)]
pub struct Configuration {
    /// The list of plugins; absent where there is none.
    list: Option<File>,
    by_plugin: BTreeMap<String, Source>,
    read: Option<Arc<Read>>,
    /// What settings name, and was read for them.
    named: Arc<Mutex<BTreeMap<PathBuf, String>>>,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.by_plugin).finish()
    }
}

impl Configuration {
    /// Reads the file and those that it names, whose paths are relative to it.
    pub fn load(
        path: &Path,
        read: impl Fn(&Path) -> io::Result<String> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::load_by(path, Arc::new(read))
    }

    fn load_by(path: &Path, read: Arc<Read>) -> Result<Self, Error> {
        let load = |path: &Path| {
            let text = read(path).map_err(|source| Error::read(path, source))?;
            Ok(File { path: path.to_owned(), text })
        };
        let file = load(path)?;
        if file.is_unlisted()? {
            let source = Source::File(file.clone());
            let by_plugin = BTreeMap::from([(UNLISTED.1.to_owned(), source)]);
            let (list, read) = (Some(file), Some(read));
            return Ok(Self { list, by_plugin, read, ..Self::default() });
        }
        let document: Document<Unread> = file.parse()?;
        document.validate(&file)?;
        let mut by_plugin = BTreeMap::new();
        for (index, item) in document.plugins.into_iter().enumerate() {
            let refused = |what: String| {
                Err(Error::Refused { path: path.to_owned(), field: entry(index), what })
            };
            if !plugins::names().any(|it| it == item.name) {
                return refused(format!("{:?} is no admission plugin", item.name));
            }
            let source = match item.place {
                Place::Nowhere => continue,
                Place::Within(_) => Source::Within(file.clone()),
                Place::File(other) => {
                    let folder = path.parent().unwrap_or_else(|| Path::new(""));
                    Source::File(load(&folder.join(other))?)
                }
            };
            if by_plugin.contains_key(&item.name) {
                return refused(format!("{:?} is there twice", item.name));
            }
            by_plugin.insert(item.name, source);
        }
        let (list, read) = (Some(file), Some(read));
        Ok(Self { list, by_plugin, read, ..Self::default() })
    }

    /// What the same files say now.
    pub fn reload(&self) -> Result<Self, Error> {
        match (&self.list, &self.read) {
            (Some(list), Some(read)) => Self::load_by(&list.path, read.clone()),
            _ => Ok(Self::default()),
        }
    }

    /// Of each file that it was made of, what was in it.
    fn texts(&self) -> BTreeMap<PathBuf, String> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = self.by_plugin.values().map(|it| match it {
            Source::File(file) | Source::Within(file) => file,
        });
        let files = self.list.iter().chain(told).map(|it| (it.path.clone(), it.text.clone()));
        files.chain(named).collect()
    }

    /// The files that it was made of.
    pub fn paths(&self) -> BTreeSet<PathBuf> {
        self.texts().into_keys().collect()
    }

    /// Whether one of its files says something else by now, or cannot be read.
    pub fn has_changed(&self) -> bool {
        let Some(read) = &self.read else { return false };
        self.texts().iter().any(|(path, text)| read(path).ok().as_ref() != Some(text))
    }

    /// Those that are told something.
    pub fn plugins(&self) -> impl Iterator<Item = &str> {
        self.by_plugin.keys().map(String::as_str)
    }

    /// A kubeconfig that a plugin's settings name.
    pub(crate) fn kubeconfig(&self, path: &Path) -> Result<Kubeconfig, Error> {
        let none = || Err(io::ErrorKind::NotFound.into());
        let text = self.read.as_ref().map_or_else(none, |it| it(path));
        let text = text.map_err(|source| Error::read(path, source))?;
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.insert(path.to_owned(), text.clone());
        Ok(Kubeconfig { path: path.to_owned(), text })
    }

    /// Where a plugin's settings are, to say what is wrong with them.
    pub(crate) fn refused(&self, plugin: &str, field: &str, what: String) -> Error {
        let source = self.by_plugin.get(plugin);
        let path = source.map(|it| match it {
            Source::File(file) | Source::Within(file) => file.path.clone(),
        });
        Error::Refused { path: path.unwrap_or_default(), field: field.to_owned(), what }
    }

    /// What a plugin is told, if anything.
    pub(crate) fn settings<T: Settings>(&self) -> Result<Option<T>, Error> {
        let Some(source) = self.by_plugin.get(T::PLUGIN) else { return Ok(None) };
        let (file, settings) = match source {
            Source::File(file) => (file, file.parse::<T>()?),
            Source::Within(file) => {
                let document: Document<T> = file.parse()?;
                let within = document.plugins.into_iter().find_map(|it| match it.place {
                    Place::Within(settings) if it.name == T::PLUGIN => Some(settings),
                    _ => None,
                });
                let Some(settings) = within else { return Ok(None) };
                (file, settings)
            }
        };
        let is_known = T::KINDS.is_empty() || T::KINDS.contains(&settings.api_version_and_kind());
        match is_known {
            true => Ok(Some(settings)),
            false => {
                let (path, known) = (file.path.clone(), T::KINDS);
                Err(Error::OtherKind { path, plugin: T::PLUGIN, known })
            }
        }
    }
}

fn entry(index: usize) -> String {
    format!("plugins[{index}].name")
}

impl File {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_saphyr::from_str(&self.text).map_err(|err| Error::parse(&self.path, &self.text, err))
    }

    fn is_unlisted(&self) -> Result<bool, Error> {
        let value: serde_json::Value = self.parse()?;
        Ok(value.get("apiVersion").is_none() && value.get(UNLISTED.0).is_some())
    }
}
