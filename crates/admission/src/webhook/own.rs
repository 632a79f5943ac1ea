//! Whether a request is a step on the way of a webhook's own pods: they are made, bound to a node,
//! said to be ready, and listed as endpoints of its Service. Who keeps any of these away is never
//! there to agree.

use api::core::{Pod, Service};
use api::discovery::EndpointSlice;
use apimachinery::{ApiError, ObjectKey};

use crate::attributes::Operation;
use crate::context::Context;

const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Creation,
    Binding,
    Status,
    Endpoints,
}

/// What becomes of such a request.
#[derive(Clone, Copy)]
pub(super) enum Blocking<'a> {
    IsAway(&'a str),
    Refuses(&'a ApiError),
}

impl Step {
    fn of(context: &Context<'_>) -> Option<Self> {
        let request = &context.request;
        let is_slice = request.is("discovery.k8s.io", "endpointslices", "");
        match request.operation {
            Operation::Create if request.is("", "pods", "") => Some(Self::Creation),
            Operation::Create if request.is("", "pods", "binding") => Some(Self::Binding),
            Operation::Update if request.is("", "pods", "status") => Some(Self::Status),
            Operation::Create | Operation::Update if is_slice => Some(Self::Endpoints),
            _ => None,
        }
    }

    /// What a webhook keeps from happening.
    fn kept(self) -> &'static str {
        match self {
            Self::Creation => "its own pods from being created",
            Self::Binding => "its own pods from being bound to nodes",
            Self::Status => "its own pods from being said to be ready",
            Self::Endpoints => "its own endpoints from being written",
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Self::Creation => "pods",
            Self::Binding => "bindings of pods",
            Self::Status => "the status of pods",
            Self::Endpoints => "EndpointSlices",
        }
    }

    fn relation(self) -> &'static str {
        match self {
            Self::Creation => "one that its Service selects",
            Self::Binding | Self::Status => "that of one that its Service selects",
            Self::Endpoints => "one of its Service",
        }
    }
}

impl Blocking<'_> {
    pub(super) fn why(&self) -> &str {
        match self {
            Self::IsAway(why) => why,
            Self::Refuses(err) => err.message(),
        }
    }

    pub(super) fn text(self, step: Step, hook: &str, (namespace, service): (&str, &str)) -> String {
        let begin = format!("webhook {hook:?} keeps {}", step.kept());
        let exempt = "Exempt them by a namespaceSelector or an objectSelector";
        match self {
            Self::IsAway(_) => format!(
                "{begin}: it must agree to {} in namespace {namespace:?}, where those of its Service {service:?} are. {exempt}, or set failurePolicy to Ignore",
                step.subject()
            ),
            Self::Refuses(_) => format!(
                "{begin}: it refuses {} ({service:?} in namespace {namespace:?}). When those that run are gone, nobody is left to agree to anything. {exempt}, or make them such that it agrees",
                step.relation()
            ),
        }
    }
}

/// `service` is namespace and name.
pub(super) fn own_step(context: &Context<'_>, (namespace, service): (&str, &str)) -> Option<Step> {
    let step = Step::of(context).filter(|_| context.request.namespace == namespace)?;
    let is_own = match step {
        Step::Endpoints => {
            let slice = context.object_as::<EndpointSlice>()?;
            let labels = slice.metadata.labels.as_ref()?;
            labels.get(SERVICE_NAME).is_some_and(|it| it == service)
        }
        Step::Creation => is_selected(context, context.object_as::<Pod>()?, (namespace, service)),
        Step::Binding | Step::Status => {
            let pod = ObjectKey::new(namespace, context.request.name);
            let pod = context.lookup.get::<Pod>(&pod)?;
            is_selected(context, &pod, (namespace, service))
        }
    };
    is_own.then_some(step)
}

fn is_selected(context: &Context<'_>, pod: &Pod, (namespace, service): (&str, &str)) -> bool {
    let service = context.lookup.get::<Service>(&ObjectKey::new(namespace, service));
    let selector = service.as_ref().and_then(|it| it.spec.as_ref()?.selector.as_ref());
    let (Some(selector), Some(labels)) = (selector, &pod.metadata.labels) else { return false };
    !selector.is_empty() && selector.iter().all(|(key, it)| labels.get(key) == Some(it))
}
