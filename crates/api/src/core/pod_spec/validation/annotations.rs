//! Annotations of pods and pod templates that mean something, most of them from before there were
//! fields for it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSpec, SeccompProfile, SecurityContext, Toleration,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use super::super::as_container;
use super::scheduling::validate_tolerations;
use super::security::PROFILE_LENGTH_MAX;
use crate::check::{self, text};
use crate::core::pod::mirror;
use crate::core::volume_sources;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APP_ARMOR_OF_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";
const UNCONFINED: &str = "unconfined";
const RUNTIME_DEFAULT: &str = "runtime/default";
/// What `runtime/default` was called when there was one runtime.
const DOCKER_DEFAULT: &str = "docker/default";
const LOCALHOST: &str = "localhost/";
const ALL_BYTES_MAX: usize = 256 * 1024;

pub(crate) type Annotations = BTreeMap<String, String>;

/// What holds for the annotations of anything; those of objects are checked with their metadata.
pub(super) fn validate_keys(annotations: &Annotations, path: &Path, errors: &mut FieldErrors) {
    let mut n_bytes = 0;
    for (key, value) in annotations {
        check::format(key, &is_qualified_name(&key.to_lowercase()), path, errors);
        n_bytes += key.len() + value.len();
    }
    if n_bytes > ALL_BYTES_MAX {
        errors.too_long(path, ALL_BYTES_MAX);
    }
}

/// `path` is that of the annotations.
pub(crate) fn validate(
    annotations: &Annotations,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(value) = annotations.get(mirror::ANNOTATION)
        && text(spec.node_name.as_ref()).is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path.key(mirror::ANNOTATION), value.as_str(), detail);
    }
    if let Some(value) = annotations.get(TOLERATIONS).filter(|it| !it.is_empty()) {
        match serde_json::from_str::<Option<Vec<Toleration>>>(value) {
            Ok(tolerations) => {
                let path = path.child(TOLERATIONS);
                validate_tolerations(&tolerations.unwrap_or_default(), &path, errors);
            }
            Err(problem) => errors.invalid(path, TOLERATIONS, &problem.to_string()),
        }
    }
    if let Some(cost) = annotations.get(DELETION_COST)
        && !is_cost(cost)
    {
        errors.invalid(&path.key(DELETION_COST), cost.as_str(), "must be a 32bit integer");
    }
    let of_pod = annotations.get_key_value(SECCOMP_OF_POD);
    let of_containers = annotations.iter().filter(|(key, _)| key.starts_with(SECCOMP_OF_CONTAINER));
    for (key, profile) in of_pod.into_iter().chain(of_containers) {
        validate_seccomp(profile, &path.child(key), errors);
    }
    validate_app_armor(annotations, spec, path, errors);
}

/// Without a plus sign or leading zeros.
fn is_cost(text: &str) -> bool {
    let is_padded = text.starts_with('+') || (text.starts_with('0') && text != "0");
    !is_padded && text.parse::<i32>().is_ok()
}

fn validate_seccomp(profile: &str, path: &Path, errors: &mut FieldErrors) {
    if let Some(file) = profile.strip_prefix(LOCALHOST) {
        volume_sources::relative(file, path, errors);
    } else if ![RUNTIME_DEFAULT, DOCKER_DEFAULT, UNCONFINED].contains(&profile) {
        errors.invalid(path, profile, "must be a valid seccomp profile");
    }
}

fn validate_app_armor(
    annotations: &Annotations,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (key, profile) in annotations {
        let Some(container) = key.strip_prefix(APP_ARMOR_OF_CONTAINER) else { continue };
        let path = path.key(key);
        if !containers(spec, &Path::root()).iter().any(|(it, _)| it.name == container) {
            errors.invalid(&path, container, "container not found");
        }
        let is_known = ["", RUNTIME_DEFAULT, UNCONFINED].contains(&profile.as_str());
        if !is_known && !profile.starts_with(LOCALHOST) {
            let detail = format!("invalid AppArmor profile name: {profile:?}");
            errors.invalid(&path, profile.as_str(), &detail);
        }
    }
}

/// What is told of an annotation that has a field in its place by now; `path` is that of them all.
pub(crate) fn seccomp_of_pod(
    annotations: &Annotations,
    spec: &PodSpec,
    path: &Path,
) -> Option<String> {
    let context = spec.security_context.as_ref();
    let has_field = context.is_some_and(|it| it.seccomp_profile.is_some());
    let (key, _) = annotations.get_key_value(SECCOMP_OF_POD).filter(|_| !has_field)?;
    Some(without_seccomp(&path.key(key)))
}

fn without_seccomp(path: &Path) -> String {
    format!("{path}: non-functional in v1.27+; use the \"seccompProfile\" field instead")
}

/// The same of one container.
pub(crate) fn seccomp_of_container(
    annotations: &Annotations,
    container: &Container,
    path: &Path,
) -> Option<String> {
    let key = format!("{SECCOMP_OF_CONTAINER}{}", container.name);
    let has_field = seccomp_of(container.security_context.as_ref()).is_some();
    (!has_field && annotations.contains_key(&key)).then(|| without_seccomp(&path.key(&key)))
}

/// What is told of an AppArmor profile that an annotation alone names, and the pod not as well.
pub(crate) fn app_armor_of_container(
    annotations: &Annotations,
    spec: &PodSpec,
    container: &Container,
    path: &Path,
) -> Option<String> {
    let key = format!("{APP_ARMOR_OF_CONTAINER}{}", container.name);
    let annotation = annotations.get(&key)?;
    let context = container.security_context.as_ref();
    let has_field = context.is_some_and(|it| it.app_armor_profile.is_some());
    let of_pod = spec.security_context.as_ref().and_then(|it| it.app_armor_profile.as_ref());
    let is_same = of_pod.is_some() && of_pod == named_profile(annotation).as_ref();
    (!has_field && !is_same).then(|| {
        let path = path.key(&key);
        format!("{path}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
    })
}

/// Where an annotation and a field say what profile there is, they say the same.
pub(crate) fn validate_profiles(
    annotations: &Annotations,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let has_any = annotations.keys().any(|key| {
        key == SECCOMP_OF_POD
            || key.starts_with(SECCOMP_OF_CONTAINER)
            || key.starts_with(APP_ARMOR_OF_CONTAINER)
    });
    if !has_any {
        return;
    }
    let of_pod = spec.security_context.as_ref();
    let context_path = path.child("securityContext");
    if let Some(profile) = of_pod.and_then(|it| it.seccomp_profile.as_ref())
        && let Some(annotation) = annotations.get(SECCOMP_OF_POD)
    {
        let path = context_path.child("seccompProfile");
        Profile::seccomp(profile).validate_match(annotation, &path, errors);
    }
    let is_windows = spec.os.as_ref().is_some_and(|it| it.name == "windows");
    for (container, path) in containers(spec, path) {
        let path = path.child("securityContext");
        let context = container.security_context.as_ref();
        let seccomp = annotations.get(&format!("{SECCOMP_OF_CONTAINER}{}", container.name));
        if let (Some(annotation), Some(profile)) = (seccomp, seccomp_of(context)) {
            let path = path.child("seccompProfile");
            Profile::seccomp(profile).validate_match(annotation, &path, errors);
        }
        let app_armor = annotations.get(&format!("{APP_ARMOR_OF_CONTAINER}{}", container.name));
        let profile = context.and_then(|it| it.app_armor_profile.as_ref());
        let profile = profile.or_else(|| of_pod?.app_armor_profile.as_ref());
        if let (Some(annotation), Some(profile), false) = (app_armor, profile, is_windows) {
            let path = path.child("appArmorProfile");
            Profile::app_armor(profile).validate_match(annotation, &path, errors);
        }
    }
}

/// Gives containers the AppArmor profiles that annotations name, where there is no field for it:
/// kubelets read fields (KEP 24). What names none stays an annotation.
pub(crate) fn sync_app_armor(annotations: &Annotations, spec: &mut PodSpec) {
    if spec.os.as_ref().is_some_and(|it| it.name == "windows") {
        return;
    }
    let of_pod = spec.security_context.as_ref().and_then(|it| it.app_armor_profile.clone());
    let sync = |name: &str, context: &mut Option<SecurityContext>| {
        let annotation = annotations.get(&format!("{APP_ARMOR_OF_CONTAINER}{name}"));
        let has_own = context.as_ref().is_some_and(|it| it.app_armor_profile.is_some());
        let profile = annotation.filter(|_| !has_own).and_then(|it| named_profile(it));
        if profile.is_some() && profile != of_pod {
            context.get_or_insert_default().app_armor_profile = profile;
        }
    };
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        sync(&container.name, &mut container.security_context);
    }
    for container in spec.ephemeral_containers.iter_mut().flatten() {
        sync(&container.name, &mut container.security_context);
    }
}

fn named_profile(annotation: &str) -> Option<AppArmorProfile> {
    let of = |type_: &str, file: Option<&str>| AppArmorProfile {
        type_: type_.to_owned(),
        localhost_profile: file.map(str::to_owned),
    };
    match annotation {
        UNCONFINED => Some(of("Unconfined", None)),
        RUNTIME_DEFAULT => Some(of("RuntimeDefault", None)),
        _ => {
            let file = annotation.strip_prefix(LOCALHOST)?;
            let is_valid =
                !file.is_empty() && file.trim() == file && file.len() <= PROFILE_LENGTH_MAX;
            is_valid.then(|| of("Localhost", Some(file)))
        }
    }
}

fn seccomp_of(context: Option<&SecurityContext>) -> Option<&SeccompProfile> {
    context?.seccomp_profile.as_ref()
}

/// A profile of either kind, as a field gives it.
struct Profile<'a> {
    what: &'static str,
    type_: &'a str,
    file: Option<&'a str>,
    defaults: &'static [&'static str],
}

impl<'a> Profile<'a> {
    fn seccomp(profile: &'a SeccompProfile) -> Self {
        Self {
            what: "seccomp",
            type_: &profile.type_,
            file: profile.localhost_profile.as_deref(),
            defaults: &[RUNTIME_DEFAULT, DOCKER_DEFAULT],
        }
    }

    fn app_armor(profile: &'a AppArmorProfile) -> Self {
        Self {
            what: "apparmor",
            type_: &profile.type_,
            file: profile.localhost_profile.as_deref(),
            defaults: &[RUNTIME_DEFAULT],
        }
    }

    fn validate_match(&self, annotation: &str, path: &Path, errors: &mut FieldErrors) {
        let file = annotation.strip_prefix(LOCALHOST);
        let is_same_type = match self.type_ {
            "Unconfined" => annotation == UNCONFINED,
            "RuntimeDefault" => self.defaults.contains(&annotation),
            "Localhost" => file.is_some(),
            _ => return,
        };
        let what = self.what;
        if !is_same_type {
            let detail = format!("{what} type in annotation and field must match");
            errors.forbidden(&path.child("type"), &detail);
        } else if self.type_ == "Localhost" && file != self.file {
            let detail = format!("{what} profile in annotation and field must match");
            errors.forbidden(&path.child("localhostProfile"), &detail);
        }
    }
}

/// All containers of a pod, with their paths.
pub(crate) fn containers(spec: &PodSpec, path: &Path) -> Vec<(Container, Path)> {
    let placed = |field: &str, all: Vec<Container>| {
        let path = path.child(field);
        let with_path = move |(index, it)| (it, path.index(index));
        all.into_iter().enumerate().map(with_path)
    };
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(as_container).collect();
    placed("initContainers", spec.init_containers.clone().unwrap_or_default())
        .chain(placed("containers", spec.containers.clone()))
        .chain(placed("ephemeralContainers", ephemeral))
        .collect()
}
