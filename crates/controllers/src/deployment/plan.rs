//! What to do for a Deployment, one step at a time: every write comes back as an event and is
//! planned on again. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DeploymentStatus, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::revisions::{self, DESIRED_REPLICAS, HASH_LABEL, MAX_REPLICAS, REVISION, age_key};
use super::{proportional, rolling, status};
use crate::owners;

pub(crate) struct Observed {
    pub deployment: Arc<Deployment>,
    /// The ReplicaSet of the present template.
    pub current: Option<Arc<ReplicaSet>>,
    pub old: Vec<Arc<ReplicaSet>>,
    /// Whether a pod of an old ReplicaSet may still run.
    pub has_old_pods: bool,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub replica_set: Arc<ReplicaSet>,
    pub replicas: i32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Create(Box<ReplicaSet>),
    /// Annotations and minReadySeconds follow the Deployment.
    Update(Box<ReplicaSet>),
    Scale(Scale),
    Delete(Arc<ReplicaSet>),
    SetRevision(String),
    SetStatus(Box<DeploymentStatus>),
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    /// When the progress deadline ends.
    pub next: Option<Duration>,
}

impl Observed {
    pub(crate) fn new(
        deployment: Arc<Deployment>,
        owned: Vec<Arc<ReplicaSet>>,
        now: Timestamp,
    ) -> Self {
        let current = revisions::current(&deployment, &owned);
        let is_current = |it: &Arc<ReplicaSet>| {
            current.as_ref().is_some_and(|current| current.metadata.uid == it.metadata.uid)
        };
        let old = owned.into_iter().filter(|it| !is_current(it)).collect();
        Self { deployment, current, old, has_old_pods: false, now }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.current)
    }

    pub(crate) fn is_recreate(&self) -> bool {
        is_recreate(&self.deployment)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.deployment.spec.as_ref().and_then(|it| it.paused).unwrap_or(false)
    }
}

pub(crate) fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|it| it.strategy.as_ref());
    strategy.and_then(|it| it.type_.as_deref()) == Some("Recreate")
}

/// Sizes are never taken for less than nothing, whatever is stored.
pub(crate) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1).max(0)
}

pub(crate) fn replicas(replica_set: &ReplicaSet) -> i32 {
    replica_set.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1).max(0)
}

/// Never more than the wanted size: what is above it is about to be deleted.
pub(crate) fn available(replica_set: &ReplicaSet) -> i32 {
    let available = replica_set.status.as_ref().and_then(|it| it.available_replicas).unwrap_or(0);
    available.clamp(0, replicas(replica_set))
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let mut actions = if owners::is_deleting(&observed.deployment.metadata) {
        Vec::new()
    } else {
        steps(observed)
    };
    let status = status::plan(observed, &actions);
    // A written Deployment comes back as an event; its status is planned on that one.
    let is_rewritten = matches!(actions.first(), Some(Action::SetRevision(_)));
    if !is_rewritten && observed.deployment.status.as_ref() != Some(&status.status) {
        actions.push(Action::SetStatus(Box::new(status.status)));
    }
    Plan { actions, next: status.next }
}

fn steps(observed: &Observed) -> Vec<Action> {
    if let Some(update) = follow_current(observed) {
        return vec![update];
    }
    let scales = if observed.is_paused() || proportional::is_scaling(observed) {
        proportional::scale(observed)
    } else if observed.is_recreate() {
        match recreate(observed) {
            Step::Scale(scales) => scales,
            Step::Create => return vec![create(observed)],
            Step::Wait => return Vec::new(),
        }
    } else {
        match roll(observed) {
            Step::Scale(scales) => scales,
            Step::Create => return vec![create(observed)],
            Step::Wait => return Vec::new(),
        }
    };
    if !scales.is_empty() {
        return scales.into_iter().map(Action::Scale).collect();
    }
    clean_up(observed)
}

enum Step {
    Scale(Vec<Scale>),
    Create,
    Wait,
}

fn roll(observed: &Observed) -> Step {
    let Some(current) = &observed.current else {
        return Step::Create;
    };
    let all = rolling::sum(observed.all().map(|it| replicas(it)));
    let size = rolling::size_of_new(&observed.deployment, replicas(current), all);
    if size != replicas(current) {
        return Step::Scale(vec![Scale { replica_set: current.clone(), replicas: size }]);
    }
    Step::Scale(rolling::scale_down_old(&observed.deployment, current, &observed.old))
}

/// Old pods are gone before the first new one starts.
fn recreate(observed: &Observed) -> Step {
    let old: Vec<Scale> = observed
        .old
        .iter()
        .filter(|it| replicas(it) > 0)
        .map(|it| Scale { replica_set: it.clone(), replicas: 0 })
        .collect();
    if !old.is_empty() {
        return Step::Scale(old);
    }
    if observed.has_old_pods {
        return Step::Wait;
    }
    let Some(current) = &observed.current else {
        return Step::Create;
    };
    let total = wanted(&observed.deployment);
    if replicas(current) == total {
        return Step::Scale(Vec::new());
    }
    Step::Scale(vec![Scale { replica_set: current.clone(), replicas: total }])
}

fn create(observed: &Observed) -> Action {
    let deployment = &observed.deployment;
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|it| it.collision_count);
    let hash = revisions::template_hash(&spec.template, collisions);
    let mut template = spec.template;
    let meta = template.metadata.get_or_insert_default();
    meta.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = meta.labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let all = rolling::sum(observed.all().map(|it| replicas(it)));
    let size = match observed.is_recreate() {
        true => wanted(deployment),
        false => rolling::size_of_new(deployment, 0, all),
    };
    let revision = revisions::next_revision(&observed.old);
    let mut annotations = revisions::annotations(deployment, None, revision);
    annotations.extend(size_annotations(deployment));
    Action::Create(Box::new(ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owners::name(&deployment.metadata))),
            namespace: deployment.metadata.namespace.clone(),
            labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owners::controller_reference(&**deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }))
}

/// What a ReplicaSet remembers of the sizes it was scaled for.
pub(crate) fn size_annotations(deployment: &Deployment) -> BTreeMap<String, String> {
    let total = wanted(deployment);
    let max = total + rolling::bounds(deployment).surge;
    BTreeMap::from([
        (DESIRED_REPLICAS.to_owned(), total.to_string()),
        (MAX_REPLICAS.to_owned(), max.to_string()),
    ])
}

/// Brings the current ReplicaSet's annotations, and then the Deployment's revision, up to date.
fn follow_current(observed: &Observed) -> Option<Action> {
    let current = observed.current.as_ref()?;
    let deployment = &observed.deployment;
    let stored = current.metadata.annotations.as_ref();
    let revision = revisions::next_revision(&observed.old);
    let annotations = revisions::annotations(deployment, stored, revision);
    let min_ready = deployment.spec.as_ref().and_then(|it| it.min_ready_seconds);
    let stored_min_ready = current.spec.as_ref().and_then(|it| it.min_ready_seconds);
    if stored != Some(&annotations) || min_ready.unwrap_or(0) != stored_min_ready.unwrap_or(0) {
        let mut replica_set = ReplicaSet::clone(current);
        replica_set.metadata.annotations = Some(annotations);
        replica_set.spec.get_or_insert_default().min_ready_seconds = min_ready;
        return Some(Action::Update(Box::new(replica_set)));
    }
    let revision = annotations.get(REVISION)?;
    let shown = deployment.metadata.annotations.as_ref().and_then(|it| it.get(REVISION));
    (shown != Some(revision)).then(|| Action::SetRevision(revision.clone()))
}

/// Deletes the oldest finished ReplicaSets above the history limit, once the update is complete.
fn clean_up(observed: &Observed) -> Vec<Action> {
    let deployment = &observed.deployment;
    let limit = deployment.spec.as_ref().and_then(|it| it.revision_history_limit);
    let Some(limit) = limit.and_then(|it| usize::try_from(it).ok()) else {
        return Vec::new();
    };
    if !observed.is_paused() && !status::is_complete(deployment, &status::count(observed)) {
        return Vec::new();
    }
    let mut old: Vec<&Arc<ReplicaSet>> =
        observed.old.iter().filter(|it| !owners::is_deleting(&it.metadata)).collect();
    let excess = old.len().saturating_sub(limit);
    old.sort_by_key(|it| (revisions::revision(it.metadata.annotations.as_ref()), age_key(it)));
    old.into_iter()
        .take(excess)
        .filter(|it| is_finished(it))
        .map(|it| Action::Delete(it.clone()))
        .collect()
}

fn is_finished(replica_set: &ReplicaSet) -> bool {
    let status = replica_set.status.as_ref();
    let seen = status.and_then(|it| it.observed_generation).unwrap_or(0);
    replicas(replica_set) == 0
        && status.is_none_or(|it| it.replicas == 0)
        && replica_set.metadata.generation.unwrap_or(0) <= seen
}
