//! The security contexts of a pod and its container, made one. The container's wins.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    Container, Pod, PodSecurityContext, SeccompProfile, SecurityContext,
};
use node_api::containers::{Seccomp, SeccompFile, Security};

use super::Error;

/// The two contexts of a container.
struct Contexts<'a> {
    pod: Option<&'a PodSecurityContext>,
    own: Option<&'a SecurityContext>,
}

impl<'a> Contexts<'a> {
    fn of(pod: &'a Pod, container: &'a Container) -> Self {
        let pod = pod.spec.as_ref().and_then(|it| it.security_context.as_ref());
        Self { pod, own: container.security_context.as_ref() }
    }

    fn run_as_user(&self) -> Option<i64> {
        let of_pod = || self.pod.and_then(|it| it.run_as_user);
        self.own.and_then(|it| it.run_as_user).or_else(of_pod)
    }

    fn run_as_group(&self) -> Option<i64> {
        let of_pod = || self.pod.and_then(|it| it.run_as_group);
        self.own.and_then(|it| it.run_as_group).or_else(of_pod)
    }

    fn run_as_non_root(&self) -> bool {
        let of_pod = || self.pod.and_then(|it| it.run_as_non_root);
        self.own.and_then(|it| it.run_as_non_root).or_else(of_pod).unwrap_or_default()
    }

    fn seccomp_profile(&self) -> Option<&'a SeccompProfile> {
        let of_pod = || self.pod.and_then(|it| it.seccomp_profile.as_ref());
        self.own.and_then(|it| it.seccomp_profile.as_ref()).or_else(of_pod)
    }
}

/// `directory` is the pod's below the kubelet's, where `seccomp/` is too.
pub(super) fn render(
    pod: &Pod,
    container: &Container,
    directory: &Path,
) -> Result<Security, Error> {
    let contexts = Contexts::of(pod, container);
    let own = contexts.own;
    let privileged = own.and_then(|it| it.privileged).unwrap_or_default();
    let capabilities = own.and_then(|it| it.capabilities.as_ref());
    let groups = contexts.pod.and_then(|it| it.supplemental_groups.clone()).unwrap_or_default();
    let fs_group = contexts.pod.and_then(|it| it.fs_group);
    let groups_policy = contexts.pod.and_then(|it| it.supplemental_groups_policy.as_deref());
    let may_escalate = own.and_then(|it| it.allow_privilege_escalation).unwrap_or(true);
    Ok(Security {
        run_as_user: contexts.run_as_user().and_then(id),
        run_as_group: contexts.run_as_group().and_then(id),
        supplemental_groups: groups.into_iter().chain(fs_group).filter_map(id).collect(),
        ignores_groups_of_image: groups_policy == Some("Strict"),
        privileged,
        capabilities_add: names(capabilities.and_then(|it| it.add.as_ref())),
        capabilities_drop: names(capabilities.and_then(|it| it.drop.as_ref())),
        read_only_root: own.and_then(|it| it.read_only_root_filesystem).unwrap_or_default(),
        no_new_privileges: !may_escalate,
        seccomp: match privileged {
            true => Seccomp::Unconfined,
            false => seccomp(contexts.seccomp_profile(), directory)?,
        },
        // `procMount: Unmasked` takes a user namespace, which admission refuses.
        unmasked_proc: privileged,
        ..Security::default()
    })
}

/// Validation has seen to it that ids fit.
fn id(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}

fn names(capabilities: Option<&Vec<String>>) -> Vec<String> {
    let without_prefix = |it: &String| it.strip_prefix("CAP_").unwrap_or(it).to_owned();
    capabilities.into_iter().flatten().map(without_prefix).collect()
}

/// Never less confined than was asked for: what is empty or unknown is refused (CVE-2023-2431).
fn seccomp(profile: Option<&SeccompProfile>, directory: &Path) -> Result<Seccomp, Error> {
    let Some(profile) = profile else { return Ok(Seccomp::Unconfined) };
    match profile.type_.as_str() {
        "Unconfined" => Ok(Seccomp::Unconfined),
        "RuntimeDefault" => Ok(Seccomp::RuntimeDefault),
        "Localhost" => {
            let root = directory.ancestors().nth(2).unwrap_or(directory);
            let name = profile.localhost_profile.as_deref().unwrap_or_default();
            if name.is_empty() {
                return Err(Error::SeccompUnnamed);
            }
            // As the API server checks it; what is opened is below the folder either way.
            if name.starts_with('/') || name.split('/').any(|it| it == "..") {
                return Err(Error::SeccompPath { name: name.to_owned() });
            }
            let directory = root.join("seccomp");
            Ok(Seccomp::Localhost(SeccompFile { directory, name: name.to_owned() }))
        }
        other => Err(Error::SeccompType { name: other.to_owned() }),
    }
}

/// Refuses a container that must not run as root and would, or might. `image_user` is as the
/// image's configuration says.
pub fn runs_as_root(pod: &Pod, container: &Container, image_user: &str) -> Result<(), Error> {
    let contexts = Contexts::of(pod, container);
    if !contexts.run_as_non_root() {
        return Ok(());
    }
    let meta = &pod.metadata;
    let [name, namespace, uid] =
        [&meta.name, &meta.namespace, &meta.uid].map(|it| it.as_deref().unwrap_or_default());
    let pod = format!("{name}_{namespace}({uid})");
    let container = container.name.clone();
    let user = image_user.split(':').next().unwrap_or_default();
    match (contexts.run_as_user(), user.parse::<u32>()) {
        (Some(0), _) => Err(Error::RunsAsRoot { pod, container }),
        (Some(_), _) => Ok(()),
        (None, Ok(0)) => Err(Error::ImageRunsAsRoot { pod, container }),
        (None, Ok(_)) => Ok(()),
        (None, Err(_)) if user.is_empty() => Err(Error::ImageRunsAsRoot { pod, container }),
        (None, Err(_)) => Err(Error::ImageUserUnknown { user: user.to_owned(), pod, container }),
    }
}
