//! Whether the node takes pods: not while the runtime does not answer or the network is broken. In
//! upstream's words.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, select};
use k8s_openapi::api::core::v1::NodeStatus;

use super::{Condition, Observed, Signals, Source, change};

const NAME: &str = "Ready";

pub(super) struct Ready;

impl Source for Ready {
    fn name(&self) -> &'static str {
        NAME
    }

    fn condition(&self, observed: &Observed) -> Condition {
        match not_ready(observed) {
            Some(why) => {
                Condition { is_true: false, reason: "KubeletNotReady", message: why.into() }
            }
            None => Condition {
                is_true: true,
                reason: "KubeletReady",
                message: "kubelet is posting ready status".into(),
            },
        }
    }

    fn wake(&self, signals: &Signals) -> BoxFuture<'static, ()> {
        let (network, runtime) = (signals.network.clone(), signals.runtime.clone());
        Box::pin(select(Box::pin(change(network)), Box::pin(change(runtime))).map(|_| ()))
    }
}

/// As upstream's kubelet says what its container runtime says; `None` while all is well.
fn not_ready(observed: &Observed) -> Option<String> {
    if let Some(fault) = &observed.runtime.fault {
        return Some(format!("container runtime is down: {fault}"));
    }
    let why = observed.network.not_ready()?;
    Some(format!(
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:{why}"
    ))
}

/// `None` if nothing is said of it.
pub(in crate::node_status) fn is_ready(status: Option<&NodeStatus>) -> Option<bool> {
    let conditions = status?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == NAME).map(|it| it.status == "True")
}
