//! Carries out what the machine asks for, verb by verb, until a volume is there or gone.

use std::path::PathBuf;

use node_api::volumes::{Found, Needs, Volume};
use node_api::{Error, PodUid, Volumes};

use super::machine::{Actual, Desired, Verb, step};

/// What should be at a volume's path, and whose it is.
pub(crate) struct Content {
    pub(crate) volume: Volume,
    pub(crate) fs_group: Option<u32>,
    /// By this kubelet, and not taken away since.
    pub(crate) was_published: bool,
}

/// Makes the volume be so, from whatever is there; every verb can be repeated. Returns its path.
pub(crate) async fn publish(
    volumes: &dyn Volumes,
    (pod, name): (&PodUid, &str),
    content: Content,
) -> Result<PathBuf, Error> {
    let Content { volume, fs_group, was_published } = content;
    let needs = volumes.needs(&volume);
    let mut actual = if was_published { Actual::published_before() } else { Actual::default() };
    loop {
        match step(Desired::Published, &actual, needs) {
            Some(verb @ Verb::Attach) => {
                volumes.attach(pod, name, &volume).await?;
                actual = actual.after(verb, true);
            }
            Some(verb @ Verb::Stage) => {
                volumes.stage(pod, name, &volume).await?;
                actual = actual.after(verb, true);
            }
            // The last: nothing is missing after it.
            _ => return volumes.publish(pod, name, volume, fs_group).await,
        }
    }
}

/// Takes all volumes of a pod away that are found, and then the folder they were in. All are tried;
/// returns what went wrong.
pub(crate) async fn remove_all(
    volumes: &dyn Volumes,
    pod: &PodUid,
    is_in_use: bool,
) -> Vec<String> {
    let found = match volumes.list(pod).await {
        Ok(found) => found,
        Err(err) => return vec![stdx::error_chain(&err)],
    };
    let mut problems = Vec::new();
    for found in found {
        let removed = remove(volumes, pod, &found, is_in_use).await;
        problems.extend(removed.err().map(|it| stdx::error_chain(&it)));
    }
    if problems.is_empty() {
        problems.extend(volumes.tear_down(pod).await.err().map(|it| stdx::error_chain(&it)));
    }
    problems
}

/// Takes the volume away, unless it is in use. Stops at the first verb that fails: what is left is
/// found again.
async fn remove(
    volumes: &dyn Volumes,
    pod: &PodUid,
    found: &Found,
    is_in_use: bool,
) -> Result<(), Error> {
    let mut actual = Actual::found(found, is_in_use);
    while let Some(verb) = step(Desired::Absent, &actual, Needs::default()) {
        match verb {
            Verb::Unpublish => volumes.unpublish(pod, &found.name).await?,
            Verb::Unstage => volumes.unstage(pod, &found.name).await?,
            Verb::Detach => volumes.detach(pod, &found.name).await?,
            Verb::Attach | Verb::Stage | Verb::Publish => {
                unreachable!("no way down goes up: {verb:?}")
            }
        }
        actual = actual.after(verb, true);
    }
    match is_in_use && found.is_published {
        true => Err(Error::Refused(format!("volume {:?} is still in use", found.name))),
        false => Ok(()),
    }
}
