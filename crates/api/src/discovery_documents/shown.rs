//! What discovery shows, in order: kinds that are served here, and versions that other servers
//! serve.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::GroupVersion;
use bytes::Bytes;

use super::order::{group_priority, version_order, version_priority};
use crate::kind::Kind;

/// One version that another server serves: it stands in for what would be served here.
#[derive(Clone, Debug)]
pub struct Foreign {
    pub group_version: GroupVersion,
    /// A JSON array of resources as the aggregated form has them.
    pub resources: Bytes,
    /// Whether that is what was, or nothing, since it cannot be asked for now.
    pub is_stale: bool,
}

/// Everything that is shown.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    pub kinds: &'a [Arc<dyn Kind>],
    pub foreign: &'a [Foreign],
    /// Of the group and of the version, where they are not the usual ones.
    pub priorities: Option<&'a BTreeMap<GroupVersion, (u32, u32)>>,
}

impl<'a> From<&'a [Arc<dyn Kind>]> for Shown<'a> {
    fn from(kinds: &'a [Arc<dyn Kind>]) -> Self {
        Self { kinds, foreign: &[], priorities: None }
    }
}

impl<'a> From<&'a Vec<Arc<dyn Kind>>> for Shown<'a> {
    fn from(kinds: &'a Vec<Arc<dyn Kind>>) -> Self {
        kinds.as_slice().into()
    }
}

/// What a version has.
pub(super) enum Content<'a> {
    Kinds(Vec<&'a dyn Kind>),
    Foreign(&'a Foreign),
}

/// Version to what it has, of one group.
pub(super) type Versions<'a> = Vec<(&'a str, Content<'a>)>;

/// Groups by priority, their versions by priority and then newest first, resources by name. A kind
/// without verbs and without subresources exists only as the body of another's subresource.
pub(super) fn groups<'a>(shown: &Shown<'a>) -> Vec<(&'a str, Versions<'a>)> {
    placed_groups(shown).into_iter().map(|(_, group, versions)| (group, versions)).collect()
}

/// With the place of each.
pub(super) fn placed_groups<'a>(shown: &Shown<'a>) -> Vec<(u32, &'a str, Versions<'a>)> {
    let mut found: BTreeMap<&str, BTreeMap<&str, Content<'a>>> = BTreeMap::new();
    for foreign in shown.foreign {
        let GroupVersion { group, version } = &foreign.group_version;
        found.entry(group).or_default().insert(version, Content::Foreign(foreign));
    }
    for kind in shown.kinds.iter().filter(|it| !it.verbs().is_empty()) {
        let names = kind.names();
        let versions = found.entry(&names.group).or_default();
        let content = versions.entry(&names.version).or_insert_with(|| Content::Kinds(Vec::new()));
        if let Content::Kinds(kinds) = content {
            kinds.push(kind.as_ref());
        }
    }
    let mut groups: Vec<(u32, &str, Versions<'_>)> = found
        .into_iter()
        .map(|(group, versions)| {
            let (place, versions) = in_order(shown, group, versions);
            (place, group, versions)
        })
        .collect();
    // The core group is before all. Stable: those of one priority stay in the order of their names.
    groups.sort_by_key(|(place, group, _)| (!group.is_empty(), Reverse(*place)));
    groups
}

/// The place of the group is the highest that any of its versions has.
fn in_order<'a>(
    shown: &Shown<'a>,
    group: &'a str,
    versions: BTreeMap<&'a str, Content<'a>>,
) -> (u32, Versions<'a>) {
    let places = |version: &str| {
        let usual = || (group_priority(group), version_priority(group, version));
        let all = shown.priorities.filter(|it| !it.is_empty());
        let found = all.and_then(|it| it.get(&GroupVersion::new(group, version)).copied());
        found.unwrap_or_else(usual)
    };
    let mut placed: Vec<((u32, u32), &str, Content<'_>)> =
        versions.into_iter().map(|(version, it)| (places(version), version, it)).collect();
    placed.sort_by(|(a, a_name, _), (b, b_name, _)| {
        b.1.cmp(&a.1).then_with(|| version_order(a_name, b_name))
    });
    let place = placed.iter().map(|it| it.0.0).max().unwrap_or_default();
    let versions = placed.into_iter().map(|(_, version, mut content)| {
        if let Content::Kinds(kinds) = &mut content {
            kinds.sort_by(|a, b| a.names().plural.cmp(&b.names().plural));
        }
        (version, content)
    });
    (place, versions.collect())
}
