//! Containers.

use std::path::Path;
use std::time::Duration;

use node_api::ClusterId;
use node_api::containers::{
    Apparmor, ContainerConfig, ContainerState, CpuQuota, Exit, Mount, Propagation, Resources,
    Seccomp, Security,
};
use node_api::sandboxes::SandboxConfig;

use super::sandbox::{ids, log_directory, namespaces};
use super::{CLUSTER, RECORD, record, signed, time};
use crate::messages::{self as cri, container_state, namespace, profile};

/// The exit code of one that could not be started.
const CODE_COULD_NOT_START: i32 = 128;
/// What an empty list of masked paths would not say: that none is.
const NO_PATHS: Vec<String> = Vec::new();

pub(crate) fn container(
    config: &ContainerConfig,
    sandbox: &SandboxConfig,
    cluster: ClusterId,
    image_user: &str,
) -> cri::ContainerConfig {
    let mut labels = config.labels.clone();
    labels.extend(
        [
            (CLUSTER, cluster.to_string()),
            ("io.kubernetes.container.name", config.name.clone()),
            ("io.kubernetes.pod.name", sandbox.pod.name.clone()),
            ("io.kubernetes.pod.namespace", sandbox.pod.namespace.clone()),
            ("io.kubernetes.pod.uid", sandbox.pod.uid.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let mut annotations = config.annotations.clone();
    // The runtime lists it every second, and secrets need not be shown more often than they are.
    let kept = ContainerConfig { env: Vec::new(), ..config.clone() };
    annotations.insert(RECORD.to_owned(), record(&kept));
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: config.name.clone(),
            attempt: config.attempt,
        }),
        image: Some(image(config.image.as_str())),
        command: config.command.clone(),
        args: config.args.clone(),
        working_dir: config.working_dir.clone().unwrap_or_default(),
        envs: config
            .env
            .iter()
            .map(|(key, value)| cri::KeyValue { key: key.clone(), value: value.clone() })
            .collect(),
        mounts: config.mounts.iter().map(mount).collect(),
        devices: config.devices.iter().map(device).collect(),
        labels,
        annotations,
        log_path: log_path(config, sandbox),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources(&config.resources)),
            security_context: Some(security(config, sandbox, image_user)),
        }),
    }
}

fn image(id: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: id.to_owned(), ..cri::ImageSpec::default() }
}

/// Relative to the sandbox's directory.
fn log_path(config: &ContainerConfig, sandbox: &SandboxConfig) -> String {
    let directory = log_directory(sandbox);
    let relative = config.log_path.strip_prefix(Path::new(&directory));
    relative.unwrap_or(&config.log_path).to_string_lossy().into_owned()
}

fn mount(mount: &Mount) -> cri::Mount {
    let mappings = mount.id_mappings.as_ref();
    cri::Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.to_string_lossy().into_owned(),
        readonly: mount.read_only || mount.image.is_some(),
        propagation: match mount.propagation {
            Propagation::Private => 0,
            Propagation::HostToContainer => 1,
            Propagation::Bidirectional => 2,
        },
        uid_mappings: mappings.map(|it| ids(&it.uids)).unwrap_or_default(),
        gid_mappings: mappings.map(|it| ids(&it.gids)).unwrap_or_default(),
        recursive_read_only: mount.recursive_read_only,
        image: mount.image.as_ref().map(|it| image(it.image.as_str())),
        image_sub_path: mount.image.as_ref().map(|it| it.sub_path.clone()).unwrap_or_default(),
    }
}

fn device(device: &node_api::containers::Device) -> cri::Device {
    cri::Device {
        container_path: device.container_path.clone(),
        host_path: device.host_path.to_string_lossy().into_owned(),
        permissions: device.permissions.clone(),
    }
}

pub(crate) fn resources(resources: &Resources) -> cri::LinuxContainerResources {
    let micros = |it: Duration| i64::try_from(it.as_micros()).unwrap_or(i64::MAX);
    let quota = resources.cpu_quota;
    cri::LinuxContainerResources {
        cpu_period: quota.map_or(0, |it| micros(it.period)),
        cpu_quota: quota.map_or(0, |it| micros(it.quota)),
        cpu_shares: signed(resources.cpu_shares),
        memory_limit_in_bytes: signed(resources.memory_limit),
        oom_score_adj: resources.oom_score_adj.unwrap_or(0).into(),
        cpuset_cpus: resources.cpuset_cpus.clone().unwrap_or_default(),
        cpuset_mems: resources.cpuset_mems.clone().unwrap_or_default(),
        hugepage_limits: resources
            .hugepage_limits
            .iter()
            .map(|(size, limit)| cri::HugepageLimit { page_size: size.clone(), limit: *limit })
            .collect(),
        unified: resources.unified.clone(),
        // No more than memory, unless asked for: so no swap.
        memory_swap_limit_in_bytes: signed(resources.memory_swap_limit.or(resources.memory_limit)),
    }
}

/// What the runtime says that is in force, in a container that was told these. 0 is what it does
/// not say.
pub(crate) fn actual(said: &cri::LinuxContainerResources, told: Resources) -> Resources {
    let positive = |it: i64| u64::try_from(it).ok().filter(|it| *it > 0);
    let quota = positive(said.cpu_quota).zip(positive(said.cpu_period));
    let is_unlimited = said.cpu_quota < 0;
    Resources {
        cpu_shares: positive(said.cpu_shares).or(told.cpu_shares),
        cpu_quota: match quota {
            Some((quota, period)) => Some(CpuQuota {
                quota: Duration::from_micros(quota),
                period: Duration::from_micros(period),
            }),
            None => told.cpu_quota.filter(|_| !is_unlimited),
        },
        memory_limit: match said.memory_limit_in_bytes {
            ..0 => None,
            0 => told.memory_limit,
            limit => positive(limit),
        },
        ..told
    }
}

/// For a container that runs: 0 would leave a limit as it is, so what is lifted is said.
pub(crate) fn update(wanted: &Resources) -> cri::LinuxContainerResources {
    let mut message = resources(wanted);
    if wanted.memory_limit.is_none() {
        (message.memory_limit_in_bytes, message.memory_swap_limit_in_bytes) = (-1, -1);
    }
    if wanted.cpu_quota.is_none() {
        message.cpu_quota = -1;
    }
    message
}

fn security(
    config: &ContainerConfig,
    sandbox: &SandboxConfig,
    image_user: &str,
) -> cri::LinuxContainerSecurityContext {
    let security = &config.security;
    let number = |it: u32| cri::Int64Value { value: it.into() };
    // The image's, said here: a group is refused without a user.
    let user = security.run_as_user.or_else(|| image_user.parse().ok());
    let mut namespaces = namespaces(sandbox);
    if let Some(target) = &config.target {
        namespaces.pid = namespace::TARGET;
        namespaces.target_id = target.to_string();
    }
    let (masked, read_only) = match security.unmasked_proc || security.privileged {
        true => (NO_PATHS, NO_PATHS),
        false => (MASKED.map(str::to_owned).into(), READ_ONLY.map(str::to_owned).into()),
    };
    cri::LinuxContainerSecurityContext {
        capabilities: Some(cri::Capability {
            add_capabilities: security.capabilities_add.clone(),
            drop_capabilities: security.capabilities_drop.clone(),
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces),
        selinux_options: security.selinux.as_ref().map(|it| cri::SelinuxOption {
            user: it.user.clone(),
            role: it.role.clone(),
            kind: it.kind.clone(),
            level: it.level.clone(),
        }),
        run_as_user: user.map(number),
        run_as_username: match user {
            Some(_) => String::new(),
            None => image_user.to_owned(),
        },
        readonly_rootfs: security.read_only_root,
        supplemental_groups: security.supplemental_groups.iter().map(|it| (*it).into()).collect(),
        no_new_privs: security.no_new_privileges,
        run_as_group: security.run_as_group.map(number),
        masked_paths: masked,
        readonly_paths: read_only,
        seccomp: Some(seccomp(security)),
        apparmor: apparmor(security),
        supplemental_groups_policy: i32::from(security.ignores_groups_of_image),
    }
}

/// As upstream's kubelet names them (k8s.io/kubernetes/pkg/securitycontext).
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

fn seccomp(security: &Security) -> cri::SecurityProfile {
    match &security.seccomp {
        Seccomp::Unconfined => of_kind(profile::UNCONFINED),
        Seccomp::RuntimeDefault => of_kind(profile::RUNTIME_DEFAULT),
        Seccomp::Localhost(file) => cri::SecurityProfile {
            profile_type: profile::LOCALHOST,
            localhost_ref: file.directory.join(&file.name).to_string_lossy().into_owned(),
        },
    }
}

/// Saying nothing is the default where the kernel has AppArmor; where it has not, asking for the
/// default is an error.
fn apparmor(security: &Security) -> Option<cri::SecurityProfile> {
    match &security.apparmor {
        Apparmor::RuntimeDefault => None,
        Apparmor::Unconfined => Some(of_kind(profile::UNCONFINED)),
        Apparmor::Localhost(name) => Some(cri::SecurityProfile {
            profile_type: profile::LOCALHOST,
            localhost_ref: name.clone(),
        }),
    }
}

fn of_kind(profile_type: i32) -> cri::SecurityProfile {
    cri::SecurityProfile { profile_type, localhost_ref: String::new() }
}

/// `None` for one that the runtime itself does not know: better what was known before.
pub(crate) fn state(status: &cri::ContainerStatus) -> Option<ContainerState> {
    match status.state {
        container_state::CREATED => Some(ContainerState::Created),
        container_state::RUNNING => {
            Some(ContainerState::Running { started: time(status.started_at) })
        }
        container_state::EXITED => Some(ContainerState::Exited(exit(status))),
        _ => None,
    }
}

fn exit(status: &cri::ContainerStatus) -> Exit {
    let has_started = status.started_at > 0;
    Exit {
        code: if has_started { status.exit_code } else { CODE_COULD_NOT_START },
        // CRI has no word for it.
        signal: None,
        oom_killed: status.reason == "OOMKilled",
        started: has_started.then(|| time(status.started_at)),
        finished: time(status.finished_at),
        message: Some(status.message.clone()).filter(|it| !it.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_named_below_the_sandboxs_directory() {
        let check = |directory: &str, log: &str, expected: (&str, &str)| {
            let sandbox = SandboxConfig { log_directory: directory.into(), ..Default::default() };
            let config = ContainerConfig { log_path: log.into(), ..Default::default() };
            let shown = (log_directory(&sandbox), log_path(&config, &sandbox));
            assert_eq!((shown.0.as_str(), shown.1.as_str()), expected);
        };
        check("/var/log/pods/a", "/var/log/pods/a/c/0.log", ("/var/log/pods/a", "c/0.log"));
        check("", "/elsewhere/0.log", ("/", "elsewhere/0.log"));
    }

    #[test]
    fn what_is_lifted_is_said() {
        let message = update(&Resources::default());
        let shown = (message.memory_limit_in_bytes, message.cpu_quota, message.cpu_shares);
        assert_eq!(shown, (-1, -1, 0));
        let limited = Resources { memory_limit: Some(7), ..Resources::default() };
        let message = update(&limited);
        let shown = (message.memory_limit_in_bytes, message.memory_swap_limit_in_bytes);
        assert_eq!(shown, (7, 7), "no swap unless it is asked for");
    }

    #[test]
    fn one_that_never_started_has_the_code_of_that() {
        let status = cri::ContainerStatus {
            state: container_state::EXITED,
            exit_code: 1,
            finished_at: 2,
            message: "no such file".to_owned(),
            ..Default::default()
        };
        let Some(ContainerState::Exited(exit)) = state(&status) else { panic!("it has exited") };
        assert_eq!((exit.code, exit.started), (128, None));
        let unknown = cri::ContainerStatus { state: 3, ..status };
        assert_eq!(state(&unknown), None);
    }

    #[test]
    fn the_images_user_is_said() {
        let check = |own: Option<u32>, of_image: &str, expected: (Option<i64>, &str)| {
            let mut config = ContainerConfig::default();
            config.security.run_as_user = own;
            let said = security(&config, &SandboxConfig::default(), of_image);
            let shown = (said.run_as_user.map(|it| it.value), said.run_as_username.as_str());
            assert_eq!(shown, expected);
        };
        check(None, "", (None, ""));
        check(None, "nginx", (None, "nginx"));
        check(None, "1000", (Some(1000), ""));
        check(Some(5), "nginx", (Some(5), ""));
    }

    #[test]
    fn a_record_has_no_environment() {
        let config = ContainerConfig {
            env: vec![("SECRET".to_owned(), "x".to_owned())],
            ..ContainerConfig::default()
        };
        let cluster = "00c0ffee".parse().unwrap();
        let message = container(&config, &SandboxConfig::default(), cluster, "");
        assert!(!message.annotations[RECORD].contains("SECRET"));
        assert_eq!(message.envs.len(), 1);
    }
}
