//! The security contexts of a pod and its container, made one. The container's wins.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    Container, Pod, PodSecurityContext, SeccompProfile, SecurityContext,
};
use node_api::containers::{Seccomp, Security};

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
pub(super) fn render(pod: &Pod, container: &Container, directory: &Path) -> Security {
    let contexts = Contexts::of(pod, container);
    let own = contexts.own;
    let privileged = own.and_then(|it| it.privileged).unwrap_or_default();
    let capabilities = own.and_then(|it| it.capabilities.as_ref());
    let groups = contexts.pod.and_then(|it| it.supplemental_groups.clone()).unwrap_or_default();
    let fs_group = contexts.pod.and_then(|it| it.fs_group);
    let is_unmasked = own.and_then(|it| it.proc_mount.as_deref()) == Some("Unmasked");
    let may_escalate = own.and_then(|it| it.allow_privilege_escalation).unwrap_or(true);
    Security {
        run_as_user: contexts.run_as_user().and_then(id),
        run_as_group: contexts.run_as_group().and_then(id),
        supplemental_groups: groups.into_iter().chain(fs_group).filter_map(id).collect(),
        privileged,
        capabilities_add: names(capabilities.and_then(|it| it.add.as_ref())),
        capabilities_drop: names(capabilities.and_then(|it| it.drop.as_ref())),
        read_only_root: own.and_then(|it| it.read_only_root_filesystem).unwrap_or_default(),
        no_new_privileges: !may_escalate,
        seccomp: match privileged {
            true => Seccomp::Unconfined,
            false => seccomp(contexts.seccomp_profile(), directory),
        },
        unmasked_proc: is_unmasked || privileged,
    }
}

/// Validation has seen to it that ids fit.
fn id(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}

fn names(capabilities: Option<&Vec<String>>) -> Vec<String> {
    let without_prefix = |it: &String| it.strip_prefix("CAP_").unwrap_or(it).to_owned();
    capabilities.into_iter().flatten().map(without_prefix).collect()
}

fn seccomp(profile: Option<&SeccompProfile>, directory: &Path) -> Seccomp {
    let Some(profile) = profile else { return Seccomp::Unconfined };
    match profile.type_.as_str() {
        "RuntimeDefault" => Seccomp::RuntimeDefault,
        "Localhost" => {
            let root = directory.ancestors().nth(2).unwrap_or(directory);
            let name = profile.localhost_profile.as_deref().unwrap_or_default();
            Seccomp::Localhost(root.join("seccomp").join(name))
        }
        _ => Seccomp::Unconfined,
    }
}

/// Refuses a container that must not run as root and would, or might. `image_user` is as the image's configuration says.
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
