//! The image of a container, or of a volume that it mounts: looked up, or pulled, as its policy
//! says.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use node_api::images::{Error, Image};
use reconcile::EventType;

use super::{Attempted, NotStarted, Outcome, Scene, credentials};
use crate::volumes::WantedImage;

pub(super) enum Found {
    Image(Box<Image>),
    Not(Attempted),
}

/// Whose image it is.
struct Subject<'a> {
    scene: &'a Scene,
    /// The container's.
    name: &'a str,
    reference: &'a str,
    pull_policy: Option<&'a str>,
    /// It is a volume's: what happens to it is told of the pod.
    is_of_volume: bool,
}

impl std::ops::Deref for Subject<'_> {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        self.scene
    }
}

pub(super) async fn ensure(scene: &Scene, container: &Container) -> Found {
    look(&Subject {
        scene,
        name: &container.name,
        reference: container.image.as_deref().unwrap_or_default(),
        pull_policy: container.image_pull_policy.as_deref(),
        is_of_volume: false,
    })
    .await
}

pub(super) async fn ensure_of_volume(
    scene: &Scene,
    container: &Container,
    wanted: &WantedImage<'_>,
) -> Found {
    look(&Subject {
        scene,
        name: &container.name,
        reference: wanted.reference,
        pull_policy: wanted.pull_policy,
        is_of_volume: true,
    })
    .await
}

async fn look(scene: &Subject<'_>) -> Found {
    let reference = scene.reference;
    let present = match scene.context.parts.images.find(reference) {
        Ok(found) => found,
        Err(err) => return invalid(scene, &err),
    };
    match (scene.pull_policy, present) {
        (Some("Never" | "IfNotPresent") | None, Some(image)) => {
            tell(
                scene,
                EventType::Normal,
                "Pulled",
                format!(
                    "Container image {reference:?} already present on machine and can be accessed by the pod"
                ),
            );
            Found::Image(Box::new(image))
        }
        (Some("Never"), None) => {
            let message =
                format!("Container image {reference:?} is not present with pull policy of Never");
            tell(scene, EventType::Warning, "ErrImageNeverPull", message.clone());
            Found::Not(failed(scene, "ErrImageNeverPull", message))
        }
        (_, _) => pull(scene).await,
    }
}

fn invalid(scene: &Subject<'_>, err: &Error) -> Found {
    let reference = scene.reference;
    let text = stdx::error_chain(err);
    let message = format!("Failed to apply default image tag {reference:?}: {text}");
    tell(scene, EventType::Warning, "InspectFailed", message.clone());
    Found::Not(failed(scene, "InvalidImageName", message))
}

async fn pull(scene: &Subject<'_>) -> Found {
    let reference = scene.reference;
    let (credentials, missing) = credentials::read(&scene.pod, &scene.followed.lookups());
    if !missing.is_empty() {
        let names = missing.join(", ");
        let message = format!(
            "Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
        );
        tell(scene, EventType::Warning, "FailedToRetrieveImagePullSecret", message);
    }
    tell(scene, EventType::Normal, "Pulling", format!("Pulling image {reference:?}"));
    let started = scene.context.world.clock.now();
    let pulled = tokio::select! {
        biased;
        () = scene.ending.cancelled() => return Found::Not(Outcome::Cancelled),
        pulled = scene.context.parts.images.pull(reference, credentials) => pulled,
    };
    match pulled {
        Ok(image) => {
            let took = render_millis(started, scene.context.world.clock.now());
            let message = format!(
                "Successfully pulled image {reference:?} in {took} ({took} including waiting). Image size: {} bytes.",
                image.size
            );
            tell(scene, EventType::Normal, "Pulled", message);
            Found::Image(Box::new(image))
        }
        Err(err) => {
            let text = stdx::error_chain(&err);
            let message = format!("Failed to pull image {reference:?}: {text}");
            tell(scene, EventType::Warning, "Failed", message);
            let reason = match err {
                node_api::Error::Image(Error::InvalidName { .. }) => "InvalidImageName",
                _ => "ErrImagePull",
            };
            Found::Not(failed(scene, reason, text))
        }
    }
}

/// As Go prints durations rounded to milliseconds: `312ms`, `1.312s`, `2m3s`.
fn render_millis(from: Timestamp, to: Timestamp) -> String {
    let millis = to.duration_since(from).as_millis().max(0);
    match (millis / 60_000, millis % 60_000) {
        (0, millis) if millis < 1000 => format!("{millis}ms"),
        (0, millis) => format!("{}s", render_seconds(millis)),
        (minutes, millis) => format!("{minutes}m{}s", render_seconds(millis)),
    }
}

fn render_seconds(millis: i128) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn tell(scene: &Subject<'_>, kind: EventType, reason: &str, message: String) {
    match scene.is_of_volume {
        true => scene.context.event(&scene.pod, kind, reason, message),
        false => scene.context.container_event((&scene.pod, scene.name), kind, reason, message),
    }
}

/// The second event of a failure, with the reason that the status shows.
fn failed(scene: &Subject<'_>, reason: &'static str, message: String) -> Attempted {
    let about = (&*scene.pod, scene.name);
    let error = format!("Error: {reason}");
    scene.context.container_event(about, EventType::Warning, "Failed", error);
    let image = scene.is_of_volume.then(|| scene.reference.to_owned());
    Outcome::Failed(NotStarted { reason, message, image })
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::render_millis;

    #[test]
    fn durations_read_as_upstream_prints_them() {
        for (millis, expected) in
            [(0, "0ms"), (312, "312ms"), (1500, "1.5s"), (2000, "2s"), (123_004, "2m3.004s")]
        {
            let from = Timestamp::UNIX_EPOCH;
            let to = from + SignedDuration::from_millis(millis);
            assert_eq!(render_millis(from, to), expected);
        }
    }
}
