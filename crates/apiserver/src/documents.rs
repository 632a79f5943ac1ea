//! Discovery and OpenAPI: rendered when first asked for, kept until the served kinds change.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use api::discovery_documents::{self as discovery, Shown};
use api::{Kind, openapi};
use apimachinery::GroupVersion;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha512};

use crate::aggregated::{Aggregated, Table};
use crate::registry::{Kinds, Registry};

/// One rendered document.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    /// Upper-case hex of the SHA-512 of its JSON.
    pub(crate) hash: String,
    /// Large documents are kept compressed as well as plain only while they are asked for.
    pub(crate) gzipped: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    ApiAggregated,
    ApisAggregated,
    Apis,
    Group(String),
    Resources(GroupVersion),
    OpenApiV2,
    OpenApiV2Protobuf,
    OpenApiV3Index,
    OpenApiV3(GroupVersion),
    OpenApiV3Protobuf(GroupVersion),
}

impl Name {
    /// What a document is another form of: both have the same hash, by which the index of OpenAPI
    /// names it.
    fn original(&self) -> Option<Self> {
        match self {
            Self::OpenApiV2Protobuf => Some(Self::OpenApiV2),
            Self::OpenApiV3Protobuf(group_version) => Some(Self::OpenApiV3(group_version.clone())),
            _ => None,
        }
    }

    /// About how many bytes it takes to render.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::OpenApiV2 | Self::OpenApiV2Protobuf | Self::OpenApiV3Index => usize::MAX,
            Self::OpenApiV3(_) | Self::OpenApiV3Protobuf(_) => usize::MAX,
            Self::ApisAggregated | Self::ApiAggregated => usize::MAX,
            Self::Apis | Self::Group(_) | Self::Resources(_) => 0,
        }
    }
}

pub(crate) struct Documents {
    registry: Arc<Registry>,
    aggregated: Arc<Aggregated>,
    /// OpenAPI v2 of versions that other servers serve.
    foreign: Mutex<Vec<(GroupVersion, Bytes)>>,
    /// What there is, never what there is not: names come from clients, and there is no end to
    /// those that name nothing.
    rendered: Mutex<(Generation, BTreeMap<Name, Document>)>,
}

/// Of what is served here, and of what others serve.
type Generation = (u64, u64);

const GZIP_MIN: usize = 4 * 1024;

impl Documents {
    pub(crate) fn new(registry: Arc<Registry>, aggregated: Arc<Aggregated>) -> Self {
        let (foreign, rendered) = (Mutex::default(), Mutex::default());
        Self { registry, aggregated, foreign, rendered }
    }

    /// OpenAPI v2 of other servers, to be merged with what is served here.
    pub(crate) fn set_foreign(&self, documents: Vec<(GroupVersion, Bytes)>) {
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if *foreign == documents {
            return;
        }
        *foreign = documents;
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        rendered.1.remove(&Name::OpenApiV2);
        rendered.1.remove(&Name::OpenApiV2Protobuf);
    }

    fn generation(&self, kinds: &Kinds, table: &Table) -> Generation {
        (kinds.generation, table.generation)
    }

    /// The document if it was rendered already.
    pub(crate) fn rendered(&self, name: &Name) -> Option<Document> {
        let generation = self.generation(&self.registry.kinds(), &self.aggregated.table());
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if rendered.0 != generation {
            *rendered = (generation, BTreeMap::new());
        }
        rendered.1.get(name).cloned()
    }

    /// `None`: there is no such group or version. May take long: some documents are megabytes.
    pub(crate) fn get(&self, name: &Name) -> Option<Document> {
        if let Some(document) = self.rendered(name) {
            return Some(document);
        }
        let (kinds, table) = (self.registry.kinds(), self.aggregated.table());
        let all: Vec<Arc<dyn Kind>> = kinds.iter().cloned().collect();
        let mut document = document(self.render(name, &all, &table)?);
        if let Some(original) = name.original() {
            document.hash = self.get(&original)?.hash;
        }
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if rendered.0 == self.generation(&kinds, &table) {
            rendered.1.insert(name.clone(), document.clone());
        }
        Some(document)
    }

    fn render(&self, name: &Name, kinds: &[Arc<dyn Kind>], table: &Table) -> Option<Vec<u8>> {
        let has = |it: &GroupVersion| self.registry.kinds().has_group_version(it);
        let foreign = table.foreign();
        let priorities = Some(table.priorities());
        let shown = Shown { kinds, foreign: &foreign, priorities };
        match name {
            Name::ApiAggregated => Some(discovery::aggregated_core(kinds)),
            Name::ApisAggregated => Some(discovery::aggregated_groups(shown)),
            Name::Apis => Some(discovery::group_list(shown)),
            Name::Group(group) => discovery::group(shown, group),
            Name::Resources(group_version) => discovery::resource_list(kinds, group_version),
            Name::OpenApiV2 => {
                let foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Some(openapi::v2_document(kinds, &foreign))
            }
            Name::OpenApiV2Protobuf => {
                let original = self.get(&Name::OpenApiV2)?;
                Some(openapi::v2_protobuf(&original.bytes))
            }
            Name::OpenApiV3(group_version) if has(group_version) => {
                Some(openapi::v3_document(group_version, kinds))
            }
            Name::OpenApiV3(_) => None,
            Name::OpenApiV3Protobuf(group_version) => {
                let original = self.get(&Name::OpenApiV3(group_version.clone()))?;
                Some(openapi::v3_protobuf(&original.bytes))
            }
            Name::OpenApiV3Index => {
                let versions = discovery::group_versions(shown).into_iter();
                let places = versions.filter_map(|it| {
                    let place = match table.find(&it) {
                        Some(_) => table.told(&it)?.openapi_v3.clone()?,
                        None => {
                            let hash = self.get(&Name::OpenApiV3(it.clone()))?.hash;
                            openapi::v3_place(&it, &hash)
                        }
                    };
                    Some((it, place))
                });
                Some(openapi::v3_index(places))
            }
        }
    }
}

fn document(bytes: Vec<u8>) -> Document {
    let hash = Sha512::digest(&bytes).iter().map(|it| format!("{it:02X}")).collect();
    let gzipped = (bytes.len() > GZIP_MIN).then(|| gzip(&bytes));
    Document { bytes: bytes.into(), hash, gzipped }
}

pub(crate) fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, PoisonError};

    use apimachinery::GroupVersion;

    use super::{Documents, Name};
    use crate::aggregated::Aggregated;
    use crate::registry::Registry;

    #[test]
    fn names_of_nothing_leave_nothing_behind() {
        let registry = Arc::new(Registry::new(api::kinds()));
        let documents = Documents::new(registry, Arc::new(Aggregated::new(None)));
        assert!(documents.get(&Name::Group("apps".to_owned())).is_some());
        for index in 0..1_000 {
            let group = format!("no-such-group-{index}");
            assert!(documents.get(&Name::Group(group.clone())).is_none());
            let version = GroupVersion::new(group, "v1");
            assert!(documents.get(&Name::Resources(version.clone())).is_none());
            assert!(documents.get(&Name::OpenApiV3(version)).is_none());
        }
        let rendered = documents.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(rendered.1.keys().collect::<Vec<_>>(), [&Name::Group("apps".to_owned())]);
    }
}
