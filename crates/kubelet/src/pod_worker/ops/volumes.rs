//! Volumes: what they are made from is fetched, rendered and put in place.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use reconcile::EventType;

use super::{Outcome, Scene};
use crate::volume_sources;

/// Waits until it is known which objects exist. All volumes are tried; each problem is an event.
pub(in crate::pod_worker) async fn set_up_volumes(scene: Scene, wanted: u64) -> Outcome {
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
    let facts = scene.facts(lookups);
    let spec = scene.pod.spec.clone().unwrap_or_default();
    let fs_group = spec.security_context.as_ref().and_then(|it| it.fs_group);
    let fs_group = fs_group.and_then(|it| u32::try_from(it).ok());
    let mut paths = BTreeMap::new();
    // Without its tokens a pod gets nothing: it would start with a part of its volumes.
    let volumes = if problems.is_empty() { spec.volumes.unwrap_or_default() } else { Vec::new() };
    for volume in &volumes {
        let rendered = match volume_sources::render(&scene.pod, volume, &facts) {
            Ok(rendered) => rendered,
            Err(err) => {
                problems.push((volume.name.clone(), stdx::error_chain(&err)));
                continue;
            }
        };
        let volumes = &scene.context.parts.volumes;
        match volumes.set_up(&scene.uid, &volume.name, rendered, fs_group).await {
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
        Some(_) => Outcome::Failed,
        None => Outcome::Volumes { wanted, paths, renew_at },
    }
}

/// The volume that the tokens are for.
fn token_volume(pod: &Pod) -> String {
    let mut volumes = pod.spec.iter().flat_map(|it| &it.volumes).flatten();
    let found = volumes.find(|it| {
        let mut sources = it.projected.iter().flat_map(|it| &it.sources).flatten();
        sources.any(|it| it.service_account_token.is_some())
    });
    found.map(|it| it.name.clone()).unwrap_or_default()
}
