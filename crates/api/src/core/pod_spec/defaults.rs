//! Values that the server fills in when a pod or a pod template leaves them out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EphemeralContainer, HTTPGetAction, Lifecycle, PodSecurityContext, PodSpec,
    Probe, ResourceRequirements, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{image_tag, totals};
use crate::amounts::{self, Amounts};
use crate::core::volume_sources::defaults::{self as volume_sources, fill};
use crate::core::{persistent_volume_claim, resource_names};
use crate::quantities::{self, round_up};

const FILE_MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// For pods and templates.
pub(crate) fn apply(spec: &mut PodSpec) {
    fill(&mut spec.dns_policy, "ClusterFirst");
    fill(&mut spec.restart_policy, "Always");
    fill(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.security_context.get_or_insert_with(PodSecurityContext::default);
    // `serviceAccount` is the old name; both are kept, and the new one wins.
    let account =
        non_empty(spec.service_account_name.take()).or_else(|| spec.service_account.take());
    spec.service_account_name = non_empty(account);
    spec.service_account.clone_from(&spec.service_account_name);
    for flag in [&mut spec.host_network, &mut spec.host_pid, &mut spec.host_ipc] {
        drop_false(flag);
    }
    for text in [
        &mut spec.node_name,
        &mut spec.hostname,
        &mut spec.subdomain,
        &mut spec.priority_class_name,
    ] {
        *text = non_empty(text.take());
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        apply_to_container(container);
    }
    for container in spec.ephemeral_containers.iter_mut().flatten() {
        apply_to_ephemeral(container);
    }
    for volume in spec.volumes.iter_mut().flatten() {
        apply_to_volume(volume);
    }
    if let Some(resources) = &mut spec.resources {
        round_resources(resources);
    }
    if let Some(overhead) = &mut spec.overhead {
        round_up(overhead);
    }
}

/// For pods alone: templates keep these as they were written.
pub(crate) fn apply_to_pod(spec: &mut PodSpec) {
    if spec.termination_grace_period_seconds.is_some_and(|it| it < 0) {
        spec.termination_grace_period_seconds = Some(1);
    }
    spec.enable_service_links.get_or_insert(true);
    let is_on_host = spec.host_network == Some(true);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(resources) = &mut container.resources {
            requests_from_limits(resources);
        }
        for port in container.ports.iter_mut().flatten().filter(|_| is_on_host) {
            if port.host_port.unwrap_or(0) == 0 {
                port.host_port = Some(port.container_port);
            }
        }
    }
    resources_of_pod(spec);
}

/// What a pod with resources of its own leaves open: its limits of huge pages are those of its
/// containers; and if it is limited, it requests what they do, else what it is limited to.
fn resources_of_pod(spec: &mut PodSpec) {
    let Some(mut resources) = spec.resources.take() else { return };
    let is_set = |it: &Option<BTreeMap<_, _>>| it.as_ref().is_some_and(|it| !it.is_empty());
    if is_set(&resources.limits) || is_set(&resources.requests) {
        let requested = resources.requests.clone().unwrap_or_default();
        let mut pages = totals::limits(spec);
        pages.retain(|it, _| resource_names::is_huge_pages(it) && !requested.contains_key(it));
        fill_amounts(&mut resources.limits, &pages);
    }
    if is_set(&resources.limits) {
        let of_pods = |it: &String| resource_names::is_of_pods(it);
        let mut requests = totals::requests(spec);
        requests.retain(|it, _| of_pods(it) && !resource_names::is_huge_pages(it));
        fill_amounts(&mut resources.requests, &requests);
        let mut limits = amounts::parse(resources.limits.as_ref());
        limits.retain(|it, _| of_pods(it));
        fill_amounts(&mut resources.requests, &limits);
    }
    spec.resources = Some(resources);
}

fn fill_amounts(quantities: &mut Option<BTreeMap<String, Quantity>>, amounts: &Amounts) {
    for (name, quantity) in amounts::render(amounts) {
        quantities.get_or_insert_default().entry(name).or_insert(quantity);
    }
}

fn apply_to_container(container: &mut Container) {
    let policy = pull_policy(container.image.as_deref().unwrap_or_default());
    fill(&mut container.image_pull_policy, policy);
    fill(&mut container.termination_message_path, "/dev/termination-log");
    fill(&mut container.termination_message_policy, "File");
    for flag in [&mut container.stdin, &mut container.stdin_once, &mut container.tty] {
        drop_false(flag);
    }
    for port in container.ports.iter_mut().flatten() {
        fill(&mut port.protocol, "TCP");
        port.name = non_empty(port.name.take());
        port.host_port = port.host_port.filter(|it| *it != 0);
    }
    for mount in container.volume_mounts.iter_mut().flatten() {
        drop_false(&mut mount.read_only);
    }
    container.env.iter_mut().flatten().for_each(apply_to_env);
    let probes = [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ];
    probes.into_iter().flatten().for_each(apply_to_probe);
    if let Some(lifecycle) = &mut container.lifecycle {
        apply_to_lifecycle(lifecycle);
    }
    // Written even when empty, as clients have always seen it.
    round_resources(container.resources.get_or_insert_default());
    if let Some(context) = &mut container.security_context {
        context.proc_mount = non_empty(context.proc_mount.take());
    }
}

fn apply_to_ephemeral(container: &mut EphemeralContainer) {
    let policy = pull_policy(container.image.as_deref().unwrap_or_default());
    fill(&mut container.image_pull_policy, policy);
    fill(&mut container.termination_message_path, "/dev/termination-log");
    fill(&mut container.termination_message_policy, "File");
    for flag in [&mut container.stdin, &mut container.stdin_once, &mut container.tty] {
        drop_false(flag);
    }
    container.env.iter_mut().flatten().for_each(apply_to_env);
}

fn apply_to_env(env: &mut EnvVar) {
    let Some(source) = &mut env.value_from else { return };
    if let Some(field) = &mut source.field_ref {
        fill(&mut field.api_version, "v1");
    }
    if let Some(file) = &mut source.file_key_ref {
        file.optional.get_or_insert(false);
    }
}

fn apply_to_probe(probe: &mut Probe) {
    for (number, value) in [
        (&mut probe.timeout_seconds, 1),
        (&mut probe.period_seconds, 10),
        (&mut probe.success_threshold, 1),
        (&mut probe.failure_threshold, 3),
    ] {
        if number.unwrap_or(0) == 0 {
            *number = Some(value);
        }
    }
    probe.initial_delay_seconds = probe.initial_delay_seconds.filter(|it| *it != 0);
    if let Some(http) = &mut probe.http_get {
        apply_to_http(http);
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn apply_to_lifecycle(lifecycle: &mut Lifecycle) {
    for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
        if let Some(http) = &mut handler.http_get {
            apply_to_http(http);
        }
    }
}

fn apply_to_http(http: &mut HTTPGetAction) {
    fill(&mut http.path, "/");
    fill(&mut http.scheme, "HTTP");
}

fn apply_to_volume(volume: &mut Volume) {
    if *volume == (Volume { name: volume.name.clone(), ..Volume::default() }) {
        volume.empty_dir = Some(Default::default());
    }
    if let Some(limit) = volume.empty_dir.as_mut().and_then(|it| it.size_limit.as_mut()) {
        quantities::canonicalize(limit);
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward) = &mut volume.downward_api {
        downward.default_mode.get_or_insert(FILE_MODE);
        for file in downward.items.iter_mut().flatten() {
            if let Some(field) = &mut file.field_ref {
                fill(&mut field.api_version, "v1");
            }
        }
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(FILE_MODE);
        projected.sources.iter_mut().flatten().for_each(apply_to_projection);
    }
    if let Some(host_path) = &mut volume.host_path {
        volume_sources::host_path(host_path);
    }
    if let Some(image) = &mut volume.image {
        let policy = pull_policy(image.reference.as_deref().unwrap_or_default());
        fill(&mut image.pull_policy, policy);
    }
    apply_to_remote_volume(volume);
}

/// Volumes that others provide: nothing here mounts them, but whoever reads the pod counts on the
/// fields.
fn apply_to_remote_volume(volume: &mut Volume) {
    if let Some(iscsi) = &mut volume.iscsi {
        volume_sources::iscsi(&mut iscsi.iscsi_interface);
    }
    if let Some(rbd) = &mut volume.rbd {
        volume_sources::rbd(&mut rbd.pool, &mut rbd.user, &mut rbd.keyring);
    }
    if let Some(disk) = &mut volume.azure_disk {
        volume_sources::azure_disk(disk);
    }
    if let Some(scale_io) = &mut volume.scale_io {
        volume_sources::scale_io(&mut scale_io.storage_mode, &mut scale_io.fs_type);
    }
    let claim = volume.ephemeral.as_mut().and_then(|it| it.volume_claim_template.as_mut());
    if let Some(claim) = claim {
        persistent_volume_claim::defaults::apply_to_spec(&mut claim.spec);
    }
}

fn apply_to_projection(source: &mut VolumeProjection) {
    if let Some(token) = &mut source.service_account_token {
        token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
    }
    for file in source.downward_api.iter_mut().flat_map(|it| it.items.iter_mut().flatten()) {
        if let Some(field) = &mut file.field_ref {
            fill(&mut field.api_version, "v1");
        }
    }
}

/// `Always` for the tag `latest`, which a name without tag and digest means as well.
fn pull_policy(image: &str) -> &'static str {
    if image_tag::tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

fn requests_from_limits(resources: &mut ResourceRequirements) {
    if let Some(limits) = &resources.limits {
        let requests = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
}

fn round_resources(resources: &mut ResourceRequirements) {
    for quantities in [&mut resources.limits, &mut resources.requests].into_iter().flatten() {
        round_up(quantities);
    }
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|it| !it.is_empty())
}

/// Some flags are written only when true, so that `false` and absent are the same object.
fn drop_false(flag: &mut Option<bool>) {
    if *flag == Some(false) {
        *flag = None;
    }
}
