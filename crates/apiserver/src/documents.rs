//! Discovery and OpenAPI: rendered when first asked for, kept until the served kinds change.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use api::discovery_documents::{self as discovery, Foreign, Shown};
use api::{Kind, openapi};
use apimachinery::GroupVersion;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha512};
use telemetry::{Counter, Description, Family, Gauge, Registry as Metrics, Stability};
use tokio::time::Instant;

use crate::aggregated::{Aggregated, Table};
use crate::registry::{Group, Kinds, Registry};

const AGGREGATIONS: Description<0> = Description {
    name: "aggregator_discovery_aggregation_count_total",
    stability: Stability::Alpha,
    help: "Counter of number of times discovery was aggregated",
    labels: [],
};

const REGENERATIONS: Description<2> = Description {
    name: "aggregator_openapi_v2_regeneration_count",
    stability: Stability::Alpha,
    help: "Counter of OpenAPI v2 spec regeneration count broken down by causing APIService name and reason.",
    labels: ["apiservice", "reason"],
};
const REGENERATION: Description<1> = Description {
    name: "aggregator_openapi_v2_regeneration_duration",
    stability: Stability::Alpha,
    help: "Gauge of OpenAPI v2 spec regeneration duration in seconds.",
    labels: ["reason"],
};

/// One rendered document.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    /// Upper-case hex of the SHA-512 of its JSON, or of what that is made from.
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

impl Document {
    fn size(&self) -> usize {
        self.bytes.len() + self.gzipped.as_ref().map_or(0, Bytes::len)
    }
}

impl Name {
    /// What it is about, if that is one group.
    fn group(&self) -> Option<&str> {
        match self {
            Self::Group(group) => Some(group),
            Self::Resources(version) | Self::OpenApiV3(version) => Some(&version.group),
            Self::OpenApiV3Protobuf(version) => Some(&version.group),
            Self::ApiAggregated => Some(""),
            Self::ApisAggregated | Self::Apis => None,
            Self::OpenApiV2 | Self::OpenApiV2Protobuf | Self::OpenApiV3Index => None,
        }
    }

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
    foreign: Mutex<Described>,
    rendered: Mutex<Rendered>,
    /// Each group as the aggregated form of `/apis` has it.
    items: Mutex<BTreeMap<Arc<str>, Item>>,
    /// How often discovery of all groups was made.
    aggregations: Arc<Counter>,
    /// How often another server's description made a new one of all necessary, and why.
    regenerations: Family<Counter, 2>,
    /// How long that took.
    regeneration: Family<Gauge, 1>,
}

/// OpenAPI v2 of versions that other servers serve.
#[derive(Default)]
struct Described {
    documents: Vec<(GroupVersion, Bytes)>,
    /// Why there will be another one of all.
    reasons: BTreeSet<&'static str>,
}

impl Described {
    /// What was added, updated or removed.
    fn changes(&self, now: &[(GroupVersion, Bytes)]) -> Vec<(GroupVersion, &'static str)> {
        let find = |all: &[(GroupVersion, Bytes)], version: &GroupVersion| {
            all.iter().find(|it| it.0 == *version).map(|it| it.1.clone())
        };
        let here =
            now.iter().filter_map(|(version, document)| match find(&self.documents, version) {
                None => Some((version.clone(), "add")),
                Some(before) if before != *document => Some((version.clone(), "update")),
                Some(_) => None,
            });
        let gone = self.documents.iter().map(|it| &it.0).filter(|it| find(now, it).is_none());
        here.chain(gone.map(|it| (it.clone(), "delete"))).collect()
    }
}

/// What there is, never what there is not: names come from clients, and there is no end to those
/// that name nothing.
#[derive(Default)]
struct Rendered {
    documents: BTreeMap<Name, (Basis, Document)>,
    n_bytes: usize,
}

/// What a document was made from: it holds while that does.
#[derive(Clone)]
enum Basis {
    /// One group, and what others serve.
    Group(Arc<Group>, u64),
    /// All that is served here, and what others serve.
    All(u64, u64),
}

struct Item {
    basis: Basis,
    item: discovery::Item,
}

const GZIP_MIN: usize = 4 * 1024;
/// Of all that is kept. What is asked for beyond is made anew each time.
const KEPT_MAX: usize = 48 << 20;

impl Basis {
    fn holds(&self, kinds: &Kinds, table: &Table, group: Option<&str>) -> bool {
        match self {
            Self::All(own, others) => (*own, *others) == (kinds.generation, table.generation),
            Self::Group(group_then, others) => {
                let now = group.and_then(|it| kinds.groups().get(it));
                *others == table.generation && now.is_some_and(|it| Arc::ptr_eq(it, group_then))
            }
        }
    }

    fn of(kinds: &Kinds, table: &Table, group: Option<&str>) -> Self {
        match group.and_then(|it| kinds.groups().get(it)) {
            Some(group) => Self::Group(group.clone(), table.generation),
            None => Self::All(kinds.generation, table.generation),
        }
    }
}

impl Rendered {
    fn insert(&mut self, name: Name, basis: Basis, document: Document) {
        self.n_bytes += document.size();
        if let Some((_, before)) = self.documents.insert(name.clone(), (basis, document)) {
            self.n_bytes -= before.size();
        }
        // Few clients ask for many documents, and those do it once.
        if self.n_bytes > KEPT_MAX {
            let kept = self.documents.remove(&name);
            self.documents.clear();
            self.n_bytes = 0;
            if let Some((basis, document)) = kept.filter(|it| it.1.size() <= KEPT_MAX) {
                self.n_bytes = document.size();
                self.documents.insert(name, (basis, document));
            }
        }
    }

    fn remove(&mut self, name: &Name) {
        if let Some((_, document)) = self.documents.remove(name) {
            self.n_bytes -= document.size();
        }
    }
}

impl Documents {
    pub(crate) fn new(
        registry: Arc<Registry>,
        aggregated: Arc<Aggregated>,
        metrics: &Metrics,
    ) -> Self {
        let (foreign, rendered, items) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self {
            registry,
            aggregated,
            foreign,
            rendered,
            items,
            aggregations: metrics.counter(&AGGREGATIONS),
            regenerations: metrics.counters(&REGENERATIONS),
            regeneration: metrics.gauges(&REGENERATION),
        }
    }

    /// OpenAPI v2 of other servers, to be merged with what is served here.
    pub(crate) fn set_foreign(&self, documents: Vec<(GroupVersion, Bytes)>) {
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = foreign.changes(&documents);
        if changes.is_empty() {
            return;
        }
        for (GroupVersion { group, version }, reason) in changes {
            self.regenerations.with([&format!("{version}.{group}"), reason]).increment();
            foreign.reasons.insert(reason);
        }
        foreign.documents = documents;
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        rendered.remove(&Name::OpenApiV2);
        rendered.remove(&Name::OpenApiV2Protobuf);
    }

    /// The document if it was rendered already.
    pub(crate) fn rendered(&self, name: &Name) -> Option<Document> {
        let (kinds, table) = (self.registry.kinds(), self.aggregated.table());
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let (basis, document) = rendered.documents.get(name)?;
        if basis.holds(&kinds, &table, name.group()) {
            return Some(document.clone());
        }
        rendered.remove(name);
        None
    }

    /// `None`: there is no such group or version. May take long: some documents are megabytes.
    pub(crate) fn get(&self, name: &Name) -> Option<Document> {
        if let Some(document) = self.rendered(name) {
            return Some(document);
        }
        let (kinds, table) = (self.registry.kinds(), self.aggregated.table());
        let mut document = document(self.render(name, &kinds, &table)?);
        if let Some(original) = name.original() {
            document.hash = self.get(&original)?.hash;
        }
        if let Name::OpenApiV3(version) = name
            && let Some(hash) = hash_of_custom(&kinds, version)
        {
            document.hash = hash;
        }
        let basis = Basis::of(&kinds, &table, name.group());
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        rendered.insert(name.clone(), basis, document.clone());
        Some(document)
    }

    fn render(&self, name: &Name, served: &Kinds, table: &Table) -> Option<Vec<u8>> {
        let all = || -> Vec<Arc<dyn Kind>> { served.iter().cloned().collect() };
        let of_group = |group: &str| -> Vec<Arc<dyn Kind>> {
            let group = served.groups().get(group);
            group.into_iter().flat_map(|it| it.iter()).cloned().collect()
        };
        let foreign = table.foreign();
        let show = |kinds| Shown { kinds, foreign: &foreign, priorities: Some(table.priorities()) };
        match name {
            Name::ApiAggregated => Some(discovery::aggregated_core(&of_group(""))),
            Name::ApisAggregated => Some(self.render_groups(served, table, &foreign)),
            Name::Apis => Some(discovery::group_list(show(&all()))),
            Name::Group(group) => discovery::group(show(&of_group(group)), group),
            Name::Resources(version) => {
                discovery::resource_list(&of_group(&version.group), version)
            }
            Name::OpenApiV2 => {
                let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
                let reasons = std::mem::take(&mut foreign.reasons);
                let documents = foreign.documents.clone();
                drop(foreign);
                let begin = Instant::now();
                let document = openapi::v2_document(&all(), &documents);
                for reason in reasons {
                    self.regeneration.with([reason]).set(begin.elapsed().as_secs_f64());
                }
                Some(document)
            }
            Name::OpenApiV2Protobuf => {
                let original = self.get(&Name::OpenApiV2)?;
                Some(openapi::v2_protobuf(&original.bytes))
            }
            Name::OpenApiV3(version) if served.has_group_version(version) => {
                Some(openapi::v3_document(version, &of_group(&version.group)))
            }
            Name::OpenApiV3(_) => None,
            Name::OpenApiV3Protobuf(version) => {
                let original = self.get(&Name::OpenApiV3(version.clone()))?;
                Some(openapi::v3_protobuf(&original.bytes))
            }
            Name::OpenApiV3Index => {
                let versions = discovery::group_versions(show(&all())).into_iter();
                let places = versions.filter_map(|it| {
                    let place = match table.find(&it) {
                        Some(_) => table.told(&it)?.openapi_v3.clone()?,
                        None => openapi::v3_place(&it, &self.hash_of(served, &it)?),
                    };
                    Some((it, place))
                });
                Some(openapi::v3_index(places))
            }
        }
    }

    /// By which the index names the document of a version.
    fn hash_of(&self, kinds: &Kinds, version: &GroupVersion) -> Option<String> {
        let original = || self.get(&Name::OpenApiV3(version.clone())).map(|it| it.hash);
        hash_of_custom(kinds, version).or_else(original)
    }

    /// Groups that are what they were are not rendered again.
    fn render_groups(&self, kinds: &Kinds, table: &Table, foreign: &[Foreign]) -> Vec<u8> {
        self.aggregations.increment();
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: BTreeSet<Arc<str>> = kinds.groups().keys().cloned().collect();
        names.extend(foreign.iter().map(|it| it.group_version.group.as_str().into()));
        names.remove("");
        items.retain(|name, _| names.contains(name));
        for name in &names {
            let is_kept =
                items.get(name).is_some_and(|it| it.basis.holds(kinds, table, Some(name.as_ref())));
            if is_kept {
                continue;
            }
            let group = kinds.groups().get(name);
            let own: Vec<Arc<dyn Kind>> =
                group.into_iter().flat_map(|it| it.iter()).cloned().collect();
            let is_meant = |it: &&Foreign| it.group_version.group == **name;
            let theirs: Vec<Foreign> = foreign.iter().filter(is_meant).cloned().collect();
            let priorities = Some(table.priorities());
            let shown = Shown { kinds: &own, foreign: &theirs, priorities };
            match discovery::aggregated_item(shown) {
                Some(item) => {
                    let basis = Basis::of(kinds, table, Some(name));
                    items.insert(name.clone(), Item { basis, item });
                }
                None => drop(items.remove(name)),
            }
        }
        let mut in_order: Vec<(&Arc<str>, &Item)> = items.iter().collect();
        // Stable: groups of one priority stay in the order of their names.
        in_order.sort_by_key(|it| std::cmp::Reverse(it.1.item.place));
        discovery::aggregated(in_order.iter().map(|it| &it.1.item.json))
    }
}

/// Of a version with nothing but custom resources: what the document is made from stands for it, so
/// that the index needs none of them rendered.
fn hash_of_custom(kinds: &Kinds, version: &GroupVersion) -> Option<String> {
    let group = kinds.groups().get(version.group.as_str())?;
    let kinds = group.iter().filter(|it| it.names().version == version.version);
    let mut hasher = Sha512::new();
    hasher.update(env!("CARGO_PKG_VERSION"));
    for kind in kinds {
        hasher.update(kind.description_id()?);
    }
    Some(hasher.finalize().iter().map(|it| format!("{it:02X}")).collect())
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
    use telemetry::Registry as MetricsRegistry;

    use super::{Documents, Name};
    use crate::aggregated::Aggregated;
    use crate::registry::Registry;

    #[test]
    fn names_of_nothing_leave_nothing_behind() {
        let (registry, metrics) =
            (Arc::new(Registry::new(api::kinds())), MetricsRegistry::default());
        let documents =
            Documents::new(registry, Arc::new(Aggregated::new(None, &metrics)), &metrics);
        assert!(documents.get(&Name::Group("apps".to_owned())).is_some());
        for index in 0..1_000 {
            let group = format!("no-such-group-{index}");
            assert!(documents.get(&Name::Group(group.clone())).is_none());
            let version = GroupVersion::new(group, "v1");
            assert!(documents.get(&Name::Resources(version.clone())).is_none());
            assert!(documents.get(&Name::OpenApiV3(version)).is_none());
        }
        let rendered = documents.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(
            rendered.documents.keys().collect::<Vec<_>>(),
            [&Name::Group("apps".to_owned())]
        );
    }

    #[test]
    fn what_another_server_says_of_itself_counts_when_it_changes() {
        let (registry, metrics) =
            (Arc::new(Registry::new(api::kinds())), MetricsRegistry::default());
        let documents =
            Documents::new(registry, Arc::new(Aggregated::new(None, &metrics)), &metrics);
        let said = |all: &[(&str, &'static str)]| {
            let all = all.iter().map(|(group, it)| (GroupVersion::new(*group, "v1"), (*it).into()));
            documents.set_foreign(all.collect());
        };
        for _ in 0..2 {
            said(&[("a.org", "{}"), ("b.org", "{}")]);
        }
        said(&[("a.org", r#"{"paths":{}}"#)]);
        documents.get(&Name::OpenApiV2).expect("a document");
        let page = metrics.render();
        let lines = |name: &str| -> Vec<String> {
            let start = format!("aggregator_openapi_v2_regeneration_{name}");
            page.lines().filter_map(|it| it.strip_prefix(&start)).map(str::to_owned).collect()
        };
        assert_eq!(
            lines("count"),
            [
                r#"{apiservice="v1.a.org",reason="add"} 1"#,
                r#"{apiservice="v1.a.org",reason="update"} 1"#,
                r#"{apiservice="v1.b.org",reason="add"} 1"#,
                r#"{apiservice="v1.b.org",reason="delete"} 1"#,
            ]
        );
        let reasons: Vec<String> = lines("duration");
        let reasons: Vec<&str> =
            reasons.iter().filter_map(|it| it.split_once(' ').map(|it| it.0)).collect();
        let expected = [r#"{reason="add"}"#, r#"{reason="delete"}"#, r#"{reason="update"}"#];
        assert_eq!(reasons, expected);
    }
}
