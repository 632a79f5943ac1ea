//! Volumes: what they are made from is fetched, rendered and put in place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use reconcile::EventType;

use super::{Action, Delays, On, Operation, Outcome, Scene};
use crate::certificates::Got;
use crate::pod_worker::memory::Memory;
use crate::volumes::{self, Content};

/// Upstream's numbers for volumes.
const DELAYS: Delays = Delays { first: Duration::from_millis(500), max: Duration::from_secs(122) };

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetUpVolumes {
    /// Which of the changes of what volumes are made from it is for.
    pub(crate) wanted: u64,
}

/// Where they are.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) paths: BTreeMap<String, PathBuf>,
    /// When the first of their tokens is due.
    pub(crate) renew_at: Option<Timestamp>,
}

impl Operation for SetUpVolumes {
    const NAME: &'static str = "set_up_volumes";
    const RETRY: Delays = DELAYS;
    type Done = Published;
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::SetUpVolumes(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome<Published> {
        set_up(scene).await
    }

    fn done(&self, done: Published, memory: &mut Memory) {
        memory.volumes.done = self.wanted;
        memory.volumes.paths = Some(done.paths);
        memory.volumes.renew_at = done.renew_at;
    }
}

/// Waits until it is known which objects exist. All volumes are tried; each problem is an event.
async fn set_up(scene: &Scene) -> Outcome<Published> {
    tokio::select! {
        biased;
        () = scene.ending.cancelled() => return Outcome::Cancelled,
        () = scene.followed.known() => {}
    }
    let mut problems = Vec::new();
    let (tokens, renew_at) = match scene.tokens.get(&scene.pod).await {
        Ok(found) => found,
        Err(err) => {
            problems.push((token_volume(&scene.pod), stdx::error_chain(&err)));
            (BTreeMap::new(), None)
        }
    };
    let mut lookups = scene.followed.lookups();
    lookups.tokens = tokens;
    let certificates = tokio::select! {
        biased;
        () = scene.ending.cancelled() => return Outcome::Cancelled,
        certificates = certificates(scene) => certificates,
    };
    let mut renew_at = renew_at;
    if let Some(got) = certificates {
        renew_at = [renew_at, got.wake].into_iter().flatten().min();
        lookups.certificates = Some(got.credentials);
        for (reason, message) in got.warnings {
            scene.context.event(&scene.pod, EventType::Warning, reason, message);
        }
    }
    lookups.trust_bundles = tokio::select! {
        biased;
        () = scene.ending.cancelled() => return Outcome::Cancelled,
        bundles = scene.followed.trust_bundles() => bundles,
    };
    let facts = scene.facts(lookups);
    let spec = scene.pod.spec.clone().unwrap_or_default();
    let fs_group = spec.security_context.as_ref().and_then(|it| it.fs_group);
    let fs_group = fs_group.and_then(|it| u32::try_from(it).ok());
    let mut paths = BTreeMap::new();
    // Without its tokens a pod gets nothing: it would start with a part of its volumes.
    let volumes = if problems.is_empty() { spec.volumes.unwrap_or_default() } else { Vec::new() };
    for volume in &volumes {
        let rendered = match volumes::render(&scene.pod, volume, &facts) {
            Ok(Some(rendered)) => rendered,
            Ok(None) => continue,
            Err(err) => {
                problems.push((volume.name.clone(), stdx::error_chain(&err)));
                continue;
            }
        };
        let was_published = scene.volumes.contains_key(&volume.name);
        let content = Content { volume: rendered, fs_group, was_published };
        let parts = &scene.context.parts;
        let at = (&scene.uid, volume.name.as_str());
        match volumes::publish(parts.volumes.as_ref(), at, content).await {
            Ok(path) => {
                paths.insert(volume.name.clone(), path);
            }
            Err(err) => problems.push((volume.name.clone(), stdx::error_chain(&err))),
        }
    }
    for (name, problem) in &problems {
        let message = format!("MountVolume.SetUp failed for volume {name:?} : {problem}");
        scene.context.event(&scene.pod, EventType::Warning, "FailedMount", message);
    }
    match problems.pop() {
        Some(_) => Outcome::Failed(()),
        None => Outcome::Done(Published { paths, renew_at }),
    }
}

/// Of the pod's own; `None`: it needs none, or this kubelet asks for none.
async fn certificates(scene: &Scene) -> Option<Got> {
    match scene.followed.certificate_requests().await? {
        Ok(requests) => Some(scene.certificates.get(&scene.pod, &requests).await),
        Err(problem) => {
            let wanted = crate::certificates::wanted(&scene.pod).into_iter();
            let credentials = wanted.map(|(key, _)| (key, Err(problem.clone()))).collect();
            Some(Got { credentials, ..Got::default() })
        }
    }
}

/// The volume that the tokens are for.
fn token_volume(pod: &Pod) -> String {
    let mut volumes = pod.spec.iter().flat_map(|it| &it.volumes).flatten();
    let found = volumes.find(|it| !volumes::tokens(it).is_empty());
    found.map(|it| it.name.clone()).unwrap_or_default()
}
