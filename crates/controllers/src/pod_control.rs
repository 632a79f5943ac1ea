//! How the pods of every workload are made, given away and deleted: owner references, the notes of
//! own writes, and the events that say so.

use std::sync::Arc;

use api::core::pod::{Pod, PodView};
use api::{Identified as _, Resource};
use apimachinery::ApiError;
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use reconcile::{
    Controller, EventRecorder, EventType, Failed, Key, Outcome as _, OwnWrites, PATIENCE,
    is_namespace_ending,
};
use serde_json::{Value, json};

use crate::{Startup, owners};

/// What events call a pod.
#[derive(Clone, Copy)]
pub(crate) enum Words {
    /// `Created pod: web-x2x4z`.
    Plain,
    /// `Create Pod web-0 in StatefulSet web successful`.
    OfSet,
}

impl Words {
    fn done(self, verb: &str, owner: &str, pod: &str) -> String {
        match self {
            Self::Plain => format!("{verb}d pod: {pod}"),
            Self::OfSet => format!("{verb} Pod {pod} in StatefulSet {owner} successful"),
        }
    }

    fn failed(self, verb: &str, owner: &str, pod: &str, why: &dyn std::fmt::Display) -> String {
        match self {
            Self::Plain => format!("Error {}ing: {why}", verb.trim_end_matches('e').to_lowercase()),
            Self::OfSet => format!("{verb} Pod {pod} in StatefulSet {owner} failed error: {why}"),
        }
    }
}

/// The writes of one controller to pods; `K` is what its queue has keys of.
pub(crate) struct PodControl<K> {
    pub api: Api<Pod>,
    pub writes: Arc<OwnWrites<PodView, K>>,
    pub events: EventRecorder,
    words: Words,
}

impl<K: Key> PodControl<K> {
    pub(crate) fn new(
        startup: &Startup<'_>,
        controller: &mut Controller<K>,
        events: &EventRecorder,
        words: Words,
    ) -> Self {
        let writes = controller.own_writes(PATIENCE);
        Self { api: startup.client.api(), writes, events: events.clone(), words }
    }

    pub(crate) async fn create<T: Resource>(
        &self,
        key: &K,
        owner: &T,
        pod: Pod,
    ) -> Result<(), ApiError> {
        let name = pod.metadata.name.clone();
        match self.api.create(pod).await {
            Ok(pod) => {
                self.writes.wrote(key, pod.meta());
                self.tell_done(owner, "Create", &pod.meta().key.name);
                Ok(())
            }
            Err(err) => {
                // That a name is taken already is no news: it is settled by a look.
                if !is_namespace_ending(&err) && !err.is_already_exists() {
                    self.tell_failed(owner, "Create", name.as_deref().unwrap_or_default(), &err);
                }
                Err(err)
            }
        }
    }

    pub(crate) async fn delete<T: Resource>(
        &self,
        key: &K,
        owner: &T,
        pod: &PodView,
    ) -> Result<(), Failed> {
        let pod_key = pod.key();
        let uid = Some(pod.uid().to_owned());
        let preconditions = Preconditions { uid, resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&pod_key.namespace, &pod_key.name, options).await;
        match deleted.unless_replaced() {
            Ok(None) => Ok(()),
            Ok(Some(())) => {
                self.writes.deleted(key, pod);
                self.tell_done(owner, "Delete", &pod_key.name);
                Ok(())
            }
            Err(err) => {
                self.tell_failed(owner, "Delete", &pod_key.name, &err);
                Err(Failed::to::<Pod>("delete", &pod_key)(err))
            }
        }
    }

    /// Some of what is over goes by together: the first failure is told, after all were tried.
    pub(crate) async fn delete_all<T: Resource>(
        &self,
        key: &K,
        owner: &T,
        pods: &[Arc<PodView>],
    ) -> Result<(), Failed> {
        let deletions = pods.iter().map(|it| self.delete(key, owner, it));
        join_all(deletions).await.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    pub(crate) fn tell_done<T: Resource>(&self, owner: &T, verb: &str, pod: &str) {
        let message = self.words.done(verb, owners::name(owner.metadata()), pod);
        self.events.event(owner, EventType::Normal, &format!("Successful{verb}"), message);
    }

    pub(crate) fn tell_failed<T: Resource>(
        &self,
        owner: &T,
        verb: &str,
        pod: &str,
        why: &dyn std::fmt::Display,
    ) {
        let message = self.words.failed(verb, owners::name(owner.metadata()), pod, why);
        self.events.event(owner, EventType::Warning, &format!("Failed{verb}"), message);
    }

    /// Takes pods that nobody has, and lets go of others. The caller has looked that the owner is
    /// still there.
    pub(crate) async fn claim<T: Resource>(
        &self,
        key: &K,
        owner: &T,
        adopt: &[Arc<PodView>],
        release: &[Arc<PodView>],
    ) -> Result<(), Failed> {
        let reference = owners::controller_reference(owner);
        for pod in adopt {
            let body = owners::adoption_patch(&reference, pod.uid());
            self.patch("adopt", key, pod, body).await?;
        }
        for pod in release {
            let body = owners::release_patch(&reference.uid, pod.uid());
            self.patch("release", key, pod, body).await?;
        }
        Ok(())
    }

    /// A strategic merge patch that names the pod's uid: another one of that name is left alone.
    pub(crate) async fn patch(
        &self,
        action: &'static str,
        key: &K,
        pod: &PodView,
        body: bytes::Bytes,
    ) -> Result<(), Failed> {
        let pod_key = pod.key();
        let kind = PatchKind::Strategic;
        let patched = self.api.patch(&pod_key.namespace, &pod_key.name, kind, body).await;
        let patched = patched.unless_replaced().map_err(Failed::to::<Pod>(action, &pod_key))?;
        if let Some(written) = patched {
            self.writes.changed(key, pod, written.meta());
        }
        Ok(())
    }

    pub(crate) async fn set_labels(
        &self,
        key: &K,
        pod: &PodView,
        labels: Value,
    ) -> Result<(), Failed> {
        let body = json!({"metadata": {"uid": pod.uid(), "labels": labels}});
        self.patch("label", key, pod, body.to_string().into()).await
    }
}

/// A pod as the template has it, with a name to be made from that of its owner.
pub(crate) fn from_template<T: Resource>(owner: &T, template: &PodTemplateSpec) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owners::name(owner.metadata()))),
            namespace: owner.metadata().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owners::controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// What came of work in batches.
pub(crate) struct Batches<E> {
    pub done: usize,
    pub failed: Vec<E>,
    /// How many were not tried.
    pub left: usize,
}

/// Works in batches of 1, 2, 4, ...: a mistake that refuses every pod is found out by one request
/// and not by hundreds. Ends with the first batch that has a failure.
pub(crate) async fn in_batches<'a, I, E, F: Future<Output = Result<(), E>>>(
    items: &'a [I],
    work: impl Fn(&'a I) -> F,
) -> Batches<E> {
    let (mut left, mut size) = (items, 1);
    let mut batches = Batches { done: 0, failed: Vec::new(), left: 0 };
    while !left.is_empty() && batches.failed.is_empty() {
        let (now, later) = left.split_at(size.min(left.len()));
        let outcomes = join_all(now.iter().map(&work)).await;
        batches.failed.extend(outcomes.into_iter().filter_map(Result::err));
        batches.done += now.len() - batches.failed.len();
        (left, size) = (later, size * 2);
    }
    batches.left = left.len();
    batches
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;

    use super::{Words, in_batches};

    #[test]
    fn events_say_which_pod_in_the_words_of_the_kind() {
        assert_eq!(Words::Plain.done("Create", "web", "web-x"), "Created pod: web-x");
        assert_eq!(Words::Plain.done("Delete", "web", "web-x"), "Deleted pod: web-x");
        assert_eq!(Words::Plain.failed("Create", "web", "", &"no"), "Error creating: no");
        assert_eq!(Words::Plain.failed("Delete", "web", "a", &"no"), "Error deleting: no");
        let said = Words::OfSet.done("Create", "web", "web-0");
        assert_eq!(said, "Create Pod web-0 in StatefulSet web successful");
        let said = Words::OfSet.failed("Delete", "web", "web-0", &"no");
        assert_eq!(said, "Delete Pod web-0 in StatefulSet web failed error: no");
    }

    #[test]
    fn what_refuses_everything_is_found_out_early() {
        let tried = Cell::new(0);
        let items: Vec<usize> = (0..100).collect();
        let run = |bad: usize| {
            tried.set(0);
            let work = |it: &usize| {
                tried.set(tried.get() + 1);
                std::future::ready(if *it >= bad { Err("no") } else { Ok(()) })
            };
            let ended = in_batches(&items, work).now_or_never().unwrap();
            (ended.done, ended.failed.len(), ended.left, tried.get())
        };
        assert_eq!(run(0), (0, 1, 99, 1));
        assert_eq!(run(2), (2, 1, 97, 3));
        assert_eq!(run(100), (100, 0, 0, 100));
    }
}
