//! The schemas of all versions of a definition, which its kinds share: objects are stored, and
//! answered by webhooks, in any of them, served or not.
//!
//! What is stored is read as the schema of its own version wants it now, which may have changed since
//! it was written: without fields that the schema has not, without nulls that may not be, and with
//! defaults; and where versions differ in name alone, then without what the version that it is read
//! in has not. Nearly all objects are so already, and each is told once.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use apimachinery::schema::Absent;
use serde::Deserialize;

use super::schemas::Schemas;
use super::stopwatch::Stopwatch;
use super::{with_tree, written};
use crate::apiextensions::custom_resource_definition::CustomResourceDefinition;
use crate::object::{Dynamic, Fit, Stored};

pub(super) struct Versions {
    group: String,
    /// Each name once.
    all: Vec<Version>,
    /// Nothing is ever dropped: of definitions from before schemas had to be complete.
    keeps_unknown: bool,
    /// Stands for all texts. Known from the first read on.
    id: OnceLock<u64>,
}

struct Version {
    name: String,
    is_served: bool,
    schemas: Schemas,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
}

impl Versions {
    pub(super) fn of(crd: &CustomResourceDefinition, stopwatch: &Arc<dyn Stopwatch>) -> Arc<Self> {
        let mut names = BTreeSet::new();
        let all = crd.spec.versions.iter().filter(|it| names.insert(&it.name));
        let all = all.map(|it| Version {
            name: it.name.clone(),
            is_served: it.served,
            schemas: Schemas::new(written(it), stopwatch.clone()),
        });
        Arc::new(Self {
            group: crd.spec.group.clone(),
            all: all.collect(),
            keeps_unknown: crd.spec.preserve_unknown_fields == Some(true),
            id: OnceLock::new(),
        })
    }

    /// Where a version of the definition is.
    pub(super) fn place_of(&self, name: &str) -> usize {
        let place = self.all.iter().position(|it| it.name == name);
        place.expect("a kind is of a version of its definition")
    }

    pub(super) fn schemas(&self, place: usize) -> &Schemas {
        &self.all[place].schemas
    }

    pub(super) fn keeps_unknown(&self) -> bool {
        self.keeps_unknown
    }

    fn find(&self, api_version: &str) -> Option<(usize, &Schemas)> {
        let name = api_version.strip_prefix(self.group.as_str())?.strip_prefix('/')?;
        let place = self.all.iter().position(|it| it.name == name)?;
        Some((place, &self.all[place].schemas))
    }

    fn id(&self) -> u64 {
        *self.id.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            for version in &self.all {
                (&version.name, version.schemas.text()).hash(&mut hasher);
            }
            hasher.finish()
        })
    }

    /// Of an object that is as its own version wants it.
    fn fit_of_own(&self) -> Fit {
        Fit::new(self.id(), 0)
    }

    /// Of one that is also as this version wants it.
    fn fit_of(&self, place: usize) -> Fit {
        Fit::new(self.id(), place + 1)
    }

    /// Drops what the schema of a version does not let be.
    pub(super) fn prune(&self, place: usize, object: &mut Dynamic) {
        if self.keeps_unknown {
            return;
        }
        let schema = self.all[place].schemas.own();
        with_tree(&mut object.rest, |it| {
            schema.prune(it);
            schema.drop_nulls(it);
        });
    }

    /// JSON of any version, as the schema of that version wants it.
    pub(super) fn read(&self, json: &[u8], absent: Absent) -> Result<Dynamic, serde_json::Error> {
        let mut object = Dynamic::decode(json)?;
        if let Some((place, schemas)) = self.find(&object.api_version) {
            self.prune(place, &mut object);
            if absent == Absent::FilledIn {
                with_tree(&mut object.rest, |it| schemas.own().apply_defaults(it));
            }
        }
        Ok(object)
    }

    /// What is stored, as its own version wants it; `None` if it is so.
    pub(super) fn complete(&self, stored: &Stored) -> Option<Dynamic> {
        match self.is_complete(stored) {
            true => None,
            false => self.read(&stored.bytes, Absent::FilledIn).ok(),
        }
    }

    /// The same in the version at `place`, where versions differ in name alone; `None` if it is as
    /// it is stored, but for its apiVersion.
    pub(super) fn read_as(&self, place: usize, stored: &Stored) -> Option<Dynamic> {
        let fit = self.fit_of(place);
        if self.keeps_unknown || stored.is_known_to_fit(fit) {
            return None;
        }
        let own = api_version_of(stored).and_then(|it| self.find(&it)).map(|it| it.0);
        let is_own = own == Some(place);
        let fits = || self.schemas(place).own().fits(&stored.bytes, Absent::Left);
        if self.is_complete(stored) && (is_own || fits()) {
            stored.know_to_fit(fit);
            return None;
        }
        let mut object = self.read(&stored.bytes, Absent::FilledIn).ok()?;
        if !is_own {
            self.prune(place, &mut object);
            object.api_version = format!("{}/{}", self.group, self.all[place].name);
        }
        Some(object)
    }

    fn is_complete(&self, stored: &Stored) -> bool {
        let fit = self.fit_of_own();
        if self.keeps_unknown || stored.is_known_to_fit(fit) {
            return true;
        }
        let own = api_version_of(stored);
        let own = own.as_deref().and_then(|it| self.find(it));
        let fits = own.is_none_or(|it| it.1.own().fits(&stored.bytes, Absent::FilledIn));
        if fits {
            stored.know_to_fit(fit);
        }
        fits
    }

    /// Whether anything is compiled that the kind at `place` looks after: its own version, and for
    /// the first one also those that no kind serves.
    pub(super) fn is_compiled(&self, place: usize) -> bool {
        self.looked_after_by(place).any(Schemas::is_compiled)
    }

    pub(super) fn sweep(&self, place: usize) {
        self.looked_after_by(place).for_each(Schemas::sweep);
    }

    fn looked_after_by(&self, place: usize) -> impl Iterator<Item = &Schemas> {
        let first = self.all.iter().position(|it| it.is_served);
        let all = self.all.iter().enumerate().filter(move |(at, it)| {
            *at == place || (!it.is_served && first.is_none_or(|it| it == place))
        });
        all.map(|(_, it)| &it.schemas)
    }
}

fn api_version_of(stored: &Stored) -> Option<Cow<'_, str>> {
    serde_json::from_slice::<Header<'_>>(&stored.bytes).ok().map(|it| it.api_version)
}
