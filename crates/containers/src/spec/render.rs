//! From what a kubelet wants and what the image says to a runtime configuration. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use linux::capabilities::Capabilities as Set;
use linux::sysctl::{Name, OwnNamespaces};
use node_api::Error;
use node_api::containers::{
    ContainerConfig, Mount, Propagation, Seccomp as WantedSeccomp, SeccompFile,
};
use node_api::images::ImageConfig;
use node_api::sandboxes::{IpcNamespace, NetworkNamespace, PidNamespace, SandboxConfig};

use super::seccomp::{docker, runtime_default};
use super::{
    Allowed, Capabilities, Cpu, Device, HugepageLimit, IMAGE, LAYER, Linux, Machine, Memory,
    Namespace, NamespaceKind, Pids, Process, Resources, Root, Seccomp, Spec, User, defaults,
    refusals,
};

/// Everything a configuration is made of.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub container: &'a ContainerConfig,
    pub image: &'a ImageConfig,
    pub sandbox: &'a SandboxConfig,
    pub machine: &'a Machine,
    /// An empty directory that the root is mounted on (in the container's own mount namespace).
    pub root: &'a str,
    /// The container's cgroup in every hierarchy; see [`crate::cgroups::Tree::path`].
    pub cgroup: &'a str,
    /// `/etc/resolv.conf`, `/etc/hosts`, `/etc/hostname`, `/dev/shm` of the pod. A mount of the
    /// container at the same place wins.
    pub pod_mounts: &'a [Mount],
    /// The text of the profile where `security.seccomp` is `Localhost`.
    pub seccomp_profile: Option<&'a str>,
    /// The container's devices; see [`super::find_devices`].
    pub devices: &'a [Allowed],
    /// The layers of each image that is mounted, uppermost first, in the order of the mounts.
    pub image_mounts: &'a [Vec<PathBuf>],
}

pub fn render(inputs: Inputs<'_>) -> Result<Spec, Error> {
    let Inputs { container, sandbox, .. } = inputs;
    refusals::of_container(container)?;
    let security = &container.security;
    let capabilities = capabilities(container)?.names();
    let seccomp = seccomp(inputs, &capabilities)?;
    let is_masked = !security.privileged && !security.unmasked_proc;
    let paths = |list: &[&str]| -> Vec<String> {
        list.iter().filter(|_| is_masked).map(|it| (*it).to_owned()).collect()
    };
    Ok(Spec {
        oci_version: "1.2.0".to_owned(),
        process: Process {
            terminal: container.tty,
            user: user(inputs),
            args: args(inputs)?,
            env: env(inputs),
            cwd: cwd(inputs)?,
            capabilities: Capabilities {
                bounding: capabilities.clone(),
                effective: capabilities.clone(),
                // Empty since CVE-2022-24769: a container's files have no use for them.
                inheritable: Vec::new(),
                permitted: capabilities,
                ambient: Vec::new(),
            },
            rlimits: Vec::new(),
            no_new_privileges: security.no_new_privileges,
            oom_score_adj: container.resources.oom_score_adj,
        },
        root: Root { path: inputs.root.to_owned(), readonly: security.read_only_root },
        hostname: sandbox.hostname.clone(),
        mounts: mounts(inputs)?,
        linux: Linux {
            namespaces: namespaces(inputs),
            resources: resources(inputs),
            cgroups_path: inputs.cgroup.to_owned(),
            seccomp,
            masked_paths: paths(defaults::MASKED_PATHS),
            readonly_paths: paths(defaults::READONLY_PATHS),
            devices: devices(inputs),
            sysctl: sysctls(sandbox)?,
            rootfs_propagation: String::new(),
        },
        annotations: container.annotations.clone(),
    })
}

/// The default ones, then additions, then removals; `ALL` stands for all. As containerd's
/// `sbserver` does it.
fn capabilities(container: &ContainerConfig) -> Result<Set, Error> {
    let security = &container.security;
    if security.privileged {
        return Ok(Set::all());
    }
    let parse = |name: &String, verb: &str| {
        Set::parse(name)
            .ok_or_else(|| Error::Refused(format!("unknown capability {name:?} to {verb}")))
    };
    let is_all = |it: &String| it.eq_ignore_ascii_case("ALL");
    let (add, drop) = (&security.capabilities_add, &security.capabilities_drop);
    let mut set = match () {
        () if add.iter().any(is_all) => Set::all(),
        () if drop.iter().any(is_all) => Set::NONE,
        () => defaults::CAPABILITIES
            .iter()
            .filter_map(|it| Set::parse(it))
            .fold(Set::NONE, Set::union),
    };
    for name in add.iter().filter(|it| !is_all(it)) {
        set = set.union(parse(name, "add")?);
    }
    for name in drop.iter().filter(|it| !is_all(it)) {
        set = set.difference(parse(name, "drop")?);
    }
    Ok(set)
}

fn seccomp(inputs: Inputs<'_>, capabilities: &[String]) -> Result<Option<Seccomp>, Error> {
    let security = &inputs.container.security;
    if security.privileged {
        return Ok(None);
    }
    match &security.seccomp {
        WantedSeccomp::Unconfined => Ok(None),
        WantedSeccomp::RuntimeDefault => {
            Ok(Some(runtime_default::profile(capabilities, inputs.machine.kernel)))
        }
        WantedSeccomp::Localhost(SeccompFile { name, .. }) => {
            let refuse = |why: String| Error::Refused(format!("seccomp profile {name:?}: {why}"));
            let text = inputs.seccomp_profile.ok_or_else(|| refuse("cannot be read".to_owned()))?;
            let place = docker::Place { capabilities, kernel: inputs.machine.kernel };
            let profile =
                docker::parse(text, place).map_err(|err| refuse(stdx::error_chain(&err)))?;
            // A profile that cannot be a filter is found out here, not when the container starts.
            profile.compile().map_err(|err| refuse(stdx::error_chain(&err)))?;
            Ok(Some(profile))
        }
    }
}

fn user(inputs: Inputs<'_>) -> User {
    let security = &inputs.container.security;
    User {
        uid: security.run_as_user.unwrap_or(0),
        gid: security.run_as_group.unwrap_or(0),
        additional_gids: security.supplemental_groups.clone(),
        ignores_groups_of_image: security.ignores_groups_of_image,
        umask: None,
        username: security
            .run_as_user
            .map_or_else(|| inputs.image.user.clone(), |it| it.to_string()),
        group: security.run_as_group,
    }
}

/// As Kubernetes defines it: a command replaces the image's entrypoint and its arguments; arguments
/// replace the latter.
fn args(inputs: Inputs<'_>) -> Result<Vec<String>, Error> {
    let Inputs { container, image, .. } = inputs;
    let (first, rest) = match (container.command.is_empty(), container.args.is_empty()) {
        (false, _) => (&container.command, &container.args),
        (true, false) => (&image.entrypoint, &container.args),
        (true, true) => (&image.entrypoint, &image.command),
    };
    let args: Vec<String> = first.iter().chain(rest).cloned().collect();
    if args.is_empty() {
        return Err(Error::Refused("no command specified".to_owned()));
    }
    let has_null = |it: &String| it.contains('\0');
    let has_bad_env = inputs.container.env.iter().any(|(name, value)| {
        name.is_empty() || name.contains('=') || has_null(name) || has_null(value)
    });
    if args.iter().any(has_null) || has_bad_env {
        return Err(Error::Refused(
            "command or environment cannot be passed to a program: a null byte, or an empty name"
                .to_owned(),
        ));
    }
    Ok(args)
}

/// The image's, then the container's; the last value of a name wins and takes the place of the
/// first.
fn env(inputs: Inputs<'_>) -> Vec<String> {
    let Inputs { container, image, sandbox, .. } = inputs;
    let mut env = vec![defaults::PATH.to_owned()];
    if container.tty {
        env.push("TERM=xterm".to_owned());
    }
    env.push(format!("HOSTNAME={}", sandbox.hostname));
    let wanted = container.env.iter().map(|(name, value)| format!("{name}={value}"));
    for variable in image.env.iter().cloned().chain(wanted) {
        let name = |it: &str| it.split('=').next().map(str::to_owned);
        let of_same_name = env.iter().position(|it| name(it) == name(&variable));
        match of_same_name {
            Some(position) => env[position] = variable,
            None => env.push(variable),
        }
    }
    env
}

fn cwd(inputs: Inputs<'_>) -> Result<String, Error> {
    let wanted = inputs.container.working_dir.as_deref().filter(|it| !it.is_empty());
    let cwd = wanted.unwrap_or(&inputs.image.working_dir);
    match cwd {
        "" => Ok("/".to_owned()),
        // Images may say `app`; runc wants a whole path, and docker makes it one.
        it if !it.starts_with('/') && wanted.is_none() => Ok(format!("/{it}")),
        it if !it.starts_with('/') => {
            Err(Error::Refused(format!("Cwd must be an absolute path: {it:?}")))
        }
        it => Ok(it.to_owned()),
    }
}

/// The defaults, then those of the pod, then the container's own, parents before children. A later
/// one at the same place replaces an earlier one.
fn mounts(inputs: Inputs<'_>) -> Result<Vec<super::Mount>, Error> {
    let clean = |path: &str| format!("/{}", path.trim_matches('/'));
    let mut images = inputs.image_mounts.iter();
    let mut wanted = Vec::new();
    for mount in inputs.pod_mounts.iter().chain(&inputs.container.mounts) {
        let destination = clean(&mount.container_path);
        wanted.push(match &mount.image {
            None => bind(mount, destination),
            Some(image) => {
                let layers = images.next().ok_or_else(|| {
                    Error::Refused(format!("image {} of a mount is not unpacked", image.image))
                })?;
                image_mount(layers, &image.sub_path, destination)?
            }
        });
    }
    let mut mounts: Vec<super::Mount> =
        defaults::mounts(inputs.container.security.privileged).collect();
    for mount in wanted {
        mounts.retain(|it| it.destination != mount.destination);
        mounts.push(mount);
    }
    mounts.sort_by_key(|it| it.destination.matches('/').count());
    Ok(mounts)
}

/// Layers one by one: a path may have any character in it.
fn image_mount(
    layers: &[PathBuf],
    sub_path: &str,
    destination: String,
) -> Result<super::Mount, Error> {
    let is_inside = |it: &str| !it.is_empty() && it != "." && it != "..";
    if !sub_path.is_empty() && !sub_path.split('/').all(is_inside) {
        let why = "is not a relative path inside the image";
        return Err(Error::Refused(format!("sub path {sub_path:?} of an image mount {why}")));
    }
    let layers = layers.iter().map(|it| format!("{LAYER}{}", it.to_string_lossy()));
    let options = ["ro", "nosuid", "nodev"].map(str::to_owned).into_iter().chain(layers);
    Ok(super::Mount {
        destination,
        kind: IMAGE.to_owned(),
        source: sub_path.to_owned(),
        options: options.collect(),
    })
}

fn bind(mount: &Mount, destination: String) -> super::Mount {
    let propagation = match mount.propagation {
        Propagation::Private => "rprivate",
        Propagation::HostToContainer => "rslave",
        Propagation::Bidirectional => "rshared",
    };
    let access = match (mount.read_only, mount.recursive_read_only) {
        (true, true) => "rro",
        (true, false) => "ro",
        (false, _) => "rw",
    };
    super::Mount {
        destination,
        kind: "bind".to_owned(),
        source: mount.host_path.to_string_lossy().into_owned(),
        options: ["rbind", propagation, access].map(str::to_owned).into(),
    }
}

/// New ones for each container. Those of the pod are the holder's, and a shared PID namespace is
/// joined by forking.
fn namespaces(inputs: Inputs<'_>) -> Vec<Namespace> {
    let mut kinds = vec![NamespaceKind::Mount, NamespaceKind::Cgroup];
    if inputs.sandbox.pid == PidNamespace::Container && inputs.container.target.is_none() {
        kinds.push(NamespaceKind::Pid);
    }
    kinds.into_iter().map(|kind| Namespace { kind, path: String::new() }).collect()
}

fn devices(inputs: Inputs<'_>) -> Vec<Device> {
    let mut devices: Vec<Device> = defaults::devices().collect();
    if inputs.container.security.privileged {
        let is_new = |it: &&Device| !defaults::devices().any(|other| other.path == it.path);
        devices.extend(inputs.machine.devices.iter().filter(is_new).cloned());
    }
    for Allowed { device, .. } in inputs.devices {
        devices.retain(|it| it.path != device.path);
        devices.push(device.clone());
    }
    devices
}

fn resources(inputs: Inputs<'_>) -> Resources {
    let container = inputs.container;
    let limits = &container.resources;
    let mut rules = match container.security.privileged {
        true => defaults::all_devices(),
        false => defaults::device_rules(),
    };
    rules.extend(inputs.devices.iter().map(|it| it.rule.clone()));
    let bounded = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    let micros = |it: std::time::Duration| u64::try_from(it.as_micros()).unwrap_or(u64::MAX);
    Resources {
        devices: rules,
        cpu: Cpu {
            shares: limits.cpu_shares,
            quota: limits.cpu_quota.map(|it| bounded(micros(it.quota))),
            period: limits.cpu_quota.map(|it| micros(it.period)),
            cpus: limits.cpuset_cpus.clone(),
            mems: limits.cpuset_mems.clone(),
        },
        memory: Memory {
            limit: limits.memory_limit.map(bounded),
            swap: limits.memory_swap_limit.map(bounded),
        },
        pids: Pids { limit: limits.pids_limit.map(bounded) },
        hugepage_limits: limits
            .hugepage_limits
            .iter()
            .map(|(size, limit)| HugepageLimit { page_size: size.clone(), limit: *limit })
            .collect(),
        unified: limits.unified.clone(),
    }
}

/// Those that belong to a namespace the pod has for itself; others would change the node.
fn sysctls(sandbox: &SandboxConfig) -> Result<BTreeMap<String, String>, Error> {
    isolated_sysctls(sandbox)
        .map(|it| it.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect())
        .map_err(|name| Error::Refused(not_isolated(&name)))
}

/// The pod's settings by name, or the first that its own namespaces do not isolate.
pub(crate) fn isolated_sysctls(sandbox: &SandboxConfig) -> Result<BTreeMap<Name, String>, String> {
    let own = OwnNamespaces {
        ipc: sandbox.ipc == IpcNamespace::Pod,
        network: sandbox.network == NetworkNamespace::Pod,
    };
    let is_isolated = |name: &Name| name.isolation().is_some_and(|it| it.is_within(own));
    let parse = |(text, value): (&String, &String)| {
        let name = Name::parse(text).filter(is_isolated).ok_or_else(|| text.clone())?;
        Ok((name, value.clone()))
    };
    sandbox.sysctls.iter().map(parse).collect()
}

/// As runc says it.
pub(crate) fn not_isolated(name: &str) -> String {
    format!("sysctl {name:?} is not in a separate kernel namespace")
}
