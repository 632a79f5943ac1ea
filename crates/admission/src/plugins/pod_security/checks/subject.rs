//! A pod, or what will be one, as checks look at it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EphemeralContainer, Lifecycle, PodSecurityContext, PodSpec, Probe,
    SecurityContext,
};

use super::Judge;
use super::text::Violation;

#[derive(Clone, Copy)]
pub(in super::super) struct Subject<'a> {
    pub(in super::super) annotations: Option<&'a BTreeMap<String, String>>,
    pub(in super::super) spec: &'a PodSpec,
}

/// What checks look at of a container, of whichever sort it is. What else there is of one is
/// harmless: a test compares this with the schema.
pub(super) struct Seen<'a> {
    pub(super) name: &'a str,
    pub(super) security: Option<&'a SecurityContext>,
    pub(super) ports: &'a [ContainerPort],
    pub(super) probes: [Option<&'a Probe>; 3],
    pub(super) lifecycle: Option<&'a Lifecycle>,
}

/// Both sorts of containers have these fields.
macro_rules! seen {
    ($container:expr) => {{
        let it = $container;
        Seen {
            name: it.name.as_str(),
            security: it.security_context.as_ref(),
            ports: it.ports.as_deref().unwrap_or_default(),
            probes: [
                it.liveness_probe.as_ref(),
                it.readiness_probe.as_ref(),
                it.startup_probe.as_ref(),
            ],
            lifecycle: it.lifecycle.as_ref(),
        }
    }};
}

impl<'a> Subject<'a> {
    /// All three sorts, in upstream's order.
    pub(super) fn containers(self) -> impl Iterator<Item = Seen<'a>> {
        let init = self.spec.init_containers.iter().flatten();
        let plain = init.chain(&self.spec.containers).map(|it: &Container| seen!(it));
        let ephemeral = self.spec.ephemeral_containers.iter().flatten();
        plain.chain(ephemeral.map(|it: &EphemeralContainer| seen!(it)))
    }

    pub(super) fn security(self) -> Option<&'a PodSecurityContext> {
        self.spec.security_context.as_ref()
    }

    /// Those whose security context is as it may not be.
    pub(super) fn containers_where(
        self,
        is_bad: impl Fn(&'a SecurityContext) -> bool,
    ) -> Vec<&'a str> {
        let bad = self.containers().filter(|it| it.security.is_some_and(&is_bad));
        bad.map(|it| it.name).collect()
    }

    /// Of pods for Windows, what has no meaning there is not asked for.
    pub(super) fn unless_windows(&self, judge: Judge) -> Option<Violation> {
        let is_windows = self.spec.os.as_ref().is_some_and(|it| it.name == "windows");
        if is_windows { None } else { judge(self) }
    }

    /// Root in a user namespace of the pod's own is nobody outside (KEP-127).
    pub(super) fn unless_own_users(&self, judge: Judge) -> Option<Violation> {
        if self.spec.host_users == Some(false) { None } else { judge(self) }
    }
}
