//! SELinux types of containers alone, and no user or role of one's own.

use k8s_openapi::api::core::v1::SELinuxOptions;

use super::Subject;
use super::text::{Setters, Values, Violation, plural, quoted};

const TYPES: &[&str] = &["", "container_t", "container_init_t", "container_kvm_t"];
const TYPES_SINCE_31: &[&str] =
    &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// What was set that may not be.
#[derive(Default)]
struct Bad<'a> {
    types: Values<'a>,
    has_user: bool,
    has_role: bool,
}

impl<'a> Bad<'a> {
    /// Whether there is something.
    fn take(&mut self, options: Option<&'a SELinuxOptions>, allowed: &[&str]) -> bool {
        let Some(options) = options else { return false };
        let is_set = |it: &Option<String>| it.as_deref().is_some_and(|it| !it.is_empty());
        let type_ = options.type_.as_deref().filter(|it| !allowed.contains(it));
        let (has_user, has_role) = (is_set(&options.user), is_set(&options.role));
        self.types.extend(type_);
        self.has_user |= has_user;
        self.has_role |= has_role;
        type_.is_some() || has_user || has_role
    }

    fn shown(self) -> String {
        let Self { types, has_user, has_role } = self;
        let shown = plural(types.len(), "type", "types");
        let types = (!types.is_empty()).then(|| format!("{shown} {}", quoted(types)));
        let user = has_user.then(|| "user may not be set".to_owned());
        let role = has_role.then(|| "role may not be set".to_owned());
        types.into_iter().chain(user).chain(role).collect::<Vec<String>>().join("; ")
    }
}

fn judge_by(pod: &Subject<'_>, allowed: &[&str]) -> Option<Violation> {
    let mut bad = Bad::default();
    let mut setters = Setters::default();
    let options = pod.security().and_then(|it| it.se_linux_options.as_ref());
    setters.is_pod = bad.take(options, allowed);
    for container in pod.containers() {
        let options = container.security.and_then(|it| it.se_linux_options.as_ref());
        if bad.take(options, allowed) {
            setters.containers.push(container.name);
        }
    }
    (!setters.is_empty()).then(|| Violation {
        reason: "seLinuxOptions",
        detail: format!(
            "{} set forbidden securityContext.seLinuxOptions: {}",
            setters.shown(),
            bad.shown()
        ),
    })
}

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    judge_by(pod, TYPES)
}

pub(super) fn judge_since_31(pod: &Subject<'_>) -> Option<Violation> {
    judge_by(pod, TYPES_SINCE_31)
}
