//! What a kubelet asks for, and what comes out of it.

use std::path::PathBuf;
use std::time::Duration;

use node_api::containers::{
    ContainerConfig, CpuQuota, ImageMount, Mount, Resources, Seccomp as WantedSeccomp, SeccompFile,
};
use node_api::images::ImageConfig;
use node_api::sandboxes::{NetworkNamespace, SandboxConfig};
use node_api::{Error, ImageId, PodRef, PodUid};

use super::{Allowed, Device, DeviceRule, Inputs, Machine, Spec, render};

struct Wanted {
    container: ContainerConfig,
    image: ImageConfig,
    sandbox: SandboxConfig,
    pod_mounts: Vec<Mount>,
    profile: Option<&'static str>,
    devices: Vec<Allowed>,
    image_mounts: Vec<Vec<PathBuf>>,
}

fn render_with(change: impl FnOnce(&mut Wanted)) -> Result<Spec, Error> {
    let mut wanted = Wanted {
        container: ContainerConfig {
            command: vec!["/run".to_owned()],
            ..node_api::fake::plain_container("c", ImageId::new("sha256:0"))
        },
        image: ImageConfig::default(),
        sandbox: node_api::fake::plain_sandbox(PodRef {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: PodUid::new("0"),
        }),
        pod_mounts: Vec::new(),
        profile: None,
        devices: Vec::new(),
        image_mounts: Vec::new(),
    };
    change(&mut wanted);
    let machine = Machine {
        kernel: (6, 1),
        devices: vec![Device {
            path: "/dev/disk".to_owned(),
            kind: 'b',
            major: 8,
            minor: 0,
            file_mode: 0o660,
        }],
    };
    render(Inputs {
        container: &wanted.container,
        image: &wanted.image,
        sandbox: &wanted.sandbox,
        machine: &machine,
        root: "/c/rootfs",
        cgroup: "/kubepods/pod0/c",
        pod_mounts: &wanted.pod_mounts,
        seccomp_profile: wanted.profile,
        devices: &wanted.devices,
        image_mounts: &wanted.image_mounts,
    })
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn command_and_args_override_the_image_as_kubernetes_says() {
    let check = |command: &[&str], args: &[&str], expected: &[&str]| {
        let spec = render_with(|it| {
            it.image.entrypoint = texts(&["/entry"]);
            it.image.command = texts(&["cmd"]);
            it.container.command = texts(command);
            it.container.args = texts(args);
        });
        assert_eq!(spec.unwrap().process.args, expected);
    };
    check(&[], &[], &["/entry", "cmd"]);
    check(&[], &["a"], &["/entry", "a"]);
    check(&["/c"], &[], &["/c"]);
    check(&["/c"], &["a"], &["/c", "a"]);
    let none = render_with(|it| it.container.command.clear());
    assert_eq!(none.unwrap_err().to_string(), "no command specified");
}

#[test]
fn later_variables_win() {
    let spec = render_with(|it| {
        it.container.tty = true;
        it.image.env = texts(&["PATH=/image", "A=image"]);
        it.container.env = vec![
            ("A".to_owned(), "first".to_owned()),
            ("A".to_owned(), "last".to_owned()),
            ("B".to_owned(), "x=y".to_owned()),
        ];
    });
    let expected = ["PATH=/image", "TERM=xterm", "HOSTNAME=web", "A=last", "B=x=y"];
    assert_eq!(spec.unwrap().process.env, expected);
}

#[test]
fn capabilities_add_and_drop() {
    let check = |add: &[&str], drop: &[&str], expected: Result<usize, &str>| {
        let spec = render_with(|it| {
            it.container.security.capabilities_add = texts(add);
            it.container.security.capabilities_drop = texts(drop);
        });
        let actual = spec.map(|it| it.process.capabilities.bounding.len());
        assert_eq!(actual.map_err(|it| it.to_string()), expected.map_err(str::to_owned));
    };
    check(&[], &[], Ok(14));
    check(&["NET_ADMIN"], &[], Ok(15));
    check(&["CAP_NET_ADMIN", "CHOWN"], &["KILL"], Ok(14));
    check(&[], &["ALL"], Ok(0));
    check(&["net_bind_service"], &["all"], Ok(1));
    check(&["ALL"], &["KILL"], Ok(40));
    check(&["FLY"], &[], Err("unknown capability \"FLY\" to add"));
    check(&[], &["FLY"], Err("unknown capability \"FLY\" to drop"));
}

#[test]
fn privileged_containers_are_not_confined() {
    let spec = render_with(|it| {
        it.container.security.privileged = true;
        it.container.security.seccomp = WantedSeccomp::RuntimeDefault;
    })
    .unwrap();
    assert_eq!(spec.process.capabilities.effective.len(), 41);
    assert!(spec.linux.seccomp.is_none());
    assert!(spec.linux.masked_paths.is_empty() && spec.linux.readonly_paths.is_empty());
    assert!(spec.linux.devices.iter().any(|it| it.path == "/dev/disk"));
    assert!(!spec.mounts.iter().any(|it| it.options.iter().any(|it| it == "ro")));
    assert!(spec.linux.resources.devices.iter().all(|it| it.allow));
    let usual = render_with(|_| {}).unwrap();
    assert!(!usual.linux.devices.iter().any(|it| it.path == "/dev/disk"));
    assert!(!usual.linux.resources.devices[0].allow);
}

#[test]
fn mounts_replace_the_defaults_and_parents_come_first() {
    let bind = |host: &str, at: &str| Mount {
        host_path: host.into(),
        container_path: at.to_owned(),
        ..Mount::default()
    };
    let spec = render_with(|it| {
        it.pod_mounts = vec![bind("/pod/hosts", "/etc/hosts"), bind("/pod/shm", "/dev/shm")];
        it.container.mounts =
            vec![bind("/b", "/data/deep/er"), bind("/a", "/data/"), bind("/own", "/etc/hosts")];
    })
    .unwrap();
    let shown: Vec<String> =
        spec.mounts.iter().map(|it| format!("{} {}", it.source, it.destination)).collect();
    let expected = [
        "proc /proc",
        "tmpfs /dev",
        "sysfs /sys",
        "/a /data",
        "devpts /dev/pts",
        "mqueue /dev/mqueue",
        "/pod/shm /dev/shm",
        "/own /etc/hosts",
        "cgroup /sys/fs/cgroup",
        "/b /data/deep/er",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn sysctls_of_the_node_are_refused() {
    let check = |name: &str, network: NetworkNamespace, is_allowed: bool| {
        let spec = render_with(|it| {
            it.sandbox.network = network;
            it.sandbox.sysctls.insert(name.to_owned(), "1".to_owned());
        });
        assert_eq!(spec.is_ok(), is_allowed, "{name}");
    };
    check("net.ipv4.ip_forward", NetworkNamespace::Pod, true);
    check("net/ipv4/conf/eth0.1/rp_filter", NetworkNamespace::Pod, true);
    check("net.ipv4.ip_forward", NetworkNamespace::Host, false);
    check("kernel.shmmax", NetworkNamespace::Host, true);
    check("kernel.panic", NetworkNamespace::Pod, false);
    check("vm.swappiness", NetworkNamespace::Pod, false);
    check("net/../kernel/panic", NetworkNamespace::Pod, false);
}

#[test]
fn limits_are_oci_s() {
    let spec = render_with(|it| {
        it.container.resources = Resources {
            cpu_shares: Some(512),
            cpu_quota: Some(CpuQuota {
                quota: Duration::from_millis(50),
                period: Duration::from_millis(100),
            }),
            memory_limit: Some(1 << 30),
            pids_limit: None,
            oom_score_adj: Some(-997),
            ..Resources::default()
        };
    })
    .unwrap();
    let super::Resources { cpu, memory, pids, .. } = &spec.linux.resources;
    assert_eq!((cpu.shares, cpu.quota, cpu.period), (Some(512), Some(50_000), Some(100_000)));
    assert_eq!((memory.limit, pids.limit), (Some(1 << 30), None));
    assert_eq!(spec.process.oom_score_adj, Some(-997));
}

#[test]
fn a_configuration_survives_its_file() {
    let spec = render_with(|it| {
        it.container.security.seccomp = WantedSeccomp::RuntimeDefault;
        it.container.security.run_as_group = Some(5);
    })
    .unwrap();
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    assert!(text.contains(r#""ociVersion":"#) && text.contains(r#""cgroupsPath":"#));
}

#[test]
fn the_default_profile_is_a_short_program() {
    let profile = |it: &mut Wanted| it.container.security.seccomp = WantedSeccomp::RuntimeDefault;
    let spec = render_with(profile).unwrap();
    let program = spec.linux.seccomp.unwrap().compile().unwrap();
    println!("{} instructions", program.len());
    assert!(program.len() < 700, "{}", program.len());
}

#[test]
fn profiles_of_the_node_are_docker_s_or_oci_s() {
    let render_profile = |text: &'static str| {
        render_with(|it| {
            it.container.security.seccomp = WantedSeccomp::Localhost(SeccompFile {
                directory: "/".into(),
                name: "p.json".into(),
            });
            it.profile = Some(text);
        })
        .map(|it| it.linux.seccomp.unwrap())
    };
    let seccomp = render_profile(
        r#"{
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]}
        ],
        "syscalls": [
            {"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": null},
            {"name": "write", "action": "SCMP_ACT_ALLOW"},
            {"names": ["chroot"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_CHROOT"]}},
            {"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
            {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
            {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
            {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "7.0"}},
            {"names": ["swapcontext"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["ppc64le"]}}
        ]}"#,
    )
    .unwrap();
    let names: Vec<&str> =
        seccomp.syscalls.iter().flat_map(|it| &it.names).map(String::as_str).collect();
    assert_eq!(names, ["read", "write", "chroot", "clone", "ptrace"]);
    assert_eq!((seccomp.default_errno_ret, seccomp.architectures.len()), (Some(38), 2));

    let check_refused = |text: &'static str, expected: &str| {
        let refused = render_profile(text).unwrap_err().to_string();
        assert!(refused.starts_with("seccomp profile \"p.json\": "), "{refused}");
        assert!(refused.contains(expected), "{refused}");
    };
    check_refused("{", "cannot be parsed");
    check_refused(r#"{"defaultAction": "SCMP_ACT_FLY"}"#, r#"action "SCMP_ACT_FLY" is not known"#);
}

#[test]
fn a_device_is_made_and_may_be_used() {
    let spec = render_with(|it| {
        let device = Device {
            path: "/dev/null".to_owned(),
            kind: 'b',
            major: 7,
            minor: 1,
            file_mode: 0o600,
        };
        let rule = DeviceRule {
            allow: true,
            kind: 'b',
            major: Some(7),
            minor: Some(1),
            access: "r".to_owned(),
        };
        it.devices = vec![Allowed { device, rule }];
    });
    let spec = spec.unwrap();
    let mut at_null = spec.linux.devices.iter().filter(|it| it.path == "/dev/null");
    assert_eq!(at_null.next().map(|it| (it.kind, it.major)), Some(('b', 7)));
    assert_eq!(at_null.next(), None, "it takes the place of the default one");
    let last = spec.linux.resources.devices.last().unwrap();
    assert_eq!((last.major, last.access.as_str()), (Some(7), "r"));
}

#[test]
fn an_images_content_is_mounted_read_only() {
    let image = ImageMount { image: ImageId::new("sha256:1"), sub_path: "etc/x".to_owned() };
    let mounted = |sub_path: &str| {
        render_with(|it| {
            it.container.mounts = vec![Mount {
                container_path: "/content".to_owned(),
                image: Some(ImageMount { sub_path: sub_path.to_owned(), ..image.clone() }),
                ..Mount::default()
            }];
            it.image_mounts = vec![vec!["/l/2".into(), "/l/1".into()]];
        })
    };
    let spec = mounted("etc/x").unwrap();
    let mount = spec.mounts.iter().find(|it| it.destination == "/content").unwrap();
    assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("xebec.dev/image", "etc/x"));
    let layers = ["xebec.dev/layer=/l/2", "xebec.dev/layer=/l/1"];
    assert_eq!(mount.options, [&["ro", "nosuid", "nodev"][..], &layers[..]].concat());
    for outside in ["../etc", "/etc", "a//b", "a/.."] {
        assert!(matches!(mounted(outside), Err(Error::Refused(_))), "{outside}");
    }
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let check = |change: fn(&mut ContainerConfig), expected: &str| {
        let error = render_with(|it| change(&mut it.container)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(|it| it.cdi_devices = vec!["a.b/c=0".to_owned()], "CDI");
    check(|it| it.security.selinux = Some(Default::default()), "SELinux");
    let mount = Mount { recursive_read_only: true, ..Mount::default() };
    let error = render_with(|it| it.container.mounts = vec![mount]).unwrap_err();
    assert!(error.to_string().contains("recursively read-only"), "{error}");
}
