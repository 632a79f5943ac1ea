//! The pod's sandbox: its namespaces, its address, its names.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use node_api::PodRef;
use node_api::network::{HostPort, Protocol};
use node_api::sandboxes::{IpcNamespace, NetworkNamespace, PidNamespace, SandboxConfig};
use reconcile::EventType;

use super::{Action, On, Operation, Outcome, Scene};
use crate::{cgroups, container_config, disk, host_files};

const RESOLV_CONF: &str = "/etc/resolv.conf";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateSandbox {
    pub(crate) attempt: u32,
}

impl Operation for CreateSandbox {
    const NAME: &'static str = "create_sandbox";
    const CHANGES_SANDBOXES: bool = true;
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::CreateSandbox(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let context = &scene.context;
        if self.attempt > 0 {
            let message = "Pod sandbox changed, it will be killed and re-created.".to_owned();
            context.event(&scene.pod, EventType::Normal, "SandboxChanged", message);
        }
        let handler = tokio::select! {
            biased;
            () = scene.ending.cancelled() => return Outcome::Cancelled,
            handler = context.runtime_classes.handler(&scene.pod) => handler,
        };
        let created = match handler {
            Ok(handler) => create(scene, self.attempt, handler).await,
            Err(err) => Err(err.to_string()),
        };
        let Err(problem) = created else { return Outcome::Done(()) };
        let message = format!("Failed to create pod sandbox: {problem}");
        context.event(&scene.pod, EventType::Warning, "FailedCreatePodSandBox", message);
        Outcome::Failed(())
    }
}

async fn create(scene: &Scene, attempt: u32, runtime_handler: String) -> Result<(), String> {
    let config = config(scene, attempt).await.map_err(|err| stdx::error_chain(&err))?;
    let config = SandboxConfig { runtime_handler, ..config };
    let created = scene.context.parts.sandboxes.create(config).await;
    created.map(drop).map_err(|err| stdx::error_chain(&err))
}

async fn config(scene: &Scene, attempt: u32) -> Result<SandboxConfig, host_files::Error> {
    let (pod, context) = (&scene.pod, &scene.context);
    let node_dns = node_api::resolv_conf::parse(&disk::read_text(RESOLV_CONF).await);
    let spec = pod.spec.clone().unwrap_or_default();
    let config = &context.config;
    let is_host = spec.host_network == Some(true);
    let pid = match (spec.host_pid, spec.share_process_namespace) {
        (Some(true), _) => PidNamespace::Host,
        (_, Some(true)) => PidNamespace::Pod,
        _ => PidNamespace::Container,
    };
    let sysctls = spec.security_context.as_ref().and_then(|it| it.sysctls.as_ref());
    Ok(SandboxConfig {
        pod: pod_ref(pod, &scene.uid),
        attempt,
        hostname: host_files::sandbox_hostname(pod, &config.node_name, &config.cluster_domain)?,
        network: if is_host { NetworkNamespace::Host } else { NetworkNamespace::Pod },
        pid,
        ipc: if spec.host_ipc == Some(true) { IpcNamespace::Host } else { IpcNamespace::Pod },
        dns: host_files::dns(pod, &config.cluster_dns, &config.cluster_domain, &node_dns),
        host_ports: if is_host { Vec::new() } else { host_ports(&spec) },
        sysctls: sysctls
            .into_iter()
            .flatten()
            .map(|it| (it.name.clone(), it.value.clone()))
            .collect(),
        cgroup: cgroups::name(&spec, &scene.uid),
        privileged: has_privileged(&spec),
        resources: container_config::of_sandbox(&spec),
        overhead: container_config::of_overhead(&spec),
        ..SandboxConfig::default()
    })
}

fn has_privileged(spec: &PodSpec) -> bool {
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let contexts = all.filter_map(|it| it.security_context.as_ref());
    contexts.into_iter().any(|it| it.privileged == Some(true))
}

fn pod_ref(pod: &Pod, uid: &node_api::PodUid) -> PodRef {
    PodRef {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: uid.clone(),
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ports = containers.flat_map(|it| &it.ports).flatten();
    ports
        .filter_map(|it| {
            let host_port = it.host_port.and_then(|it| u16::try_from(it).ok())?;
            Some(HostPort {
                protocol: match it.protocol.as_deref() {
                    Some("UDP") => Protocol::Udp,
                    Some("SCTP") => Protocol::Sctp,
                    _ => Protocol::Tcp,
                },
                host_address: it.host_ip.as_deref().and_then(|it| it.parse().ok()),
                host_port,
                container_port: u16::try_from(it.container_port).ok()?,
            })
        })
        .filter(|it| it.host_port != 0)
        .collect()
}
