//! What was observed in, conditions out.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use node_api::network::Status;
use node_api::sandboxes::Status as RuntimeStatus;
use tokio::sync::watch;

use super::{Observed, Signals, all, differ, render};

fn observed(fault: Option<&str>) -> Observed {
    let fault = fault.map(Into::into);
    Observed { network: Status { fault, ..Status::default() }, ..Observed::default() }
}

fn check(observed: &Observed, expected: &[&str]) {
    let conditions = render(None, observed, Timestamp::UNIX_EPOCH);
    let text = |it: &NodeCondition| {
        let reason = it.reason.as_deref().unwrap_or_default();
        let message = it.message.as_deref().unwrap_or_default();
        format!("{}={} {reason}: {message}", it.type_, it.status)
    };
    assert_eq!(conditions.iter().map(text).collect::<Vec<_>>(), expected);
}

#[test]
fn each_source_says_its_condition_in_upstreams_words() {
    let no_pressure = [
        "MemoryPressure=False KubeletHasSufficientMemory: kubelet has sufficient memory available",
        "DiskPressure=False KubeletHasNoDiskPressure: kubelet has no disk pressure",
        "PIDPressure=False KubeletHasSufficientPID: kubelet has sufficient PID available",
    ];
    let ready = "Ready=True KubeletReady: kubelet is posting ready status";
    check(&observed(None), &[&no_pressure[..], &[ready]].concat());
    let not_ready = "Ready=False KubeletNotReady: container runtime network not ready: \
                     NetworkReady=false reason:NetworkPluginNotReady message:its bridge is gone";
    check(&observed(Some("its bridge is gone")), &[&no_pressure[..], &[not_ready]].concat());
    let mut silent = observed(Some("its bridge is gone"));
    silent.runtime.fault = Some("it does not answer".to_owned());
    let not_ready = "Ready=False KubeletNotReady: container runtime is down: it does not answer";
    check(&silent, &[&no_pressure[..], &[not_ready]].concat());
}

#[test]
fn a_transition_keeps_its_time_and_conditions_of_others_stay() {
    let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    let foreign = NodeCondition { type_: "Frozen".to_owned(), ..NodeCondition::default() };
    let old = |conditions| NodeStatus { conditions: Some(conditions), ..NodeStatus::default() };
    let first = render(Some(&old(vec![foreign.clone()])), &observed(None), at(1));
    assert_eq!(first[0], foreign);
    let transition = |conditions: &[NodeCondition], name: &str| {
        let found = conditions.iter().find(|it| it.type_ == name).unwrap();
        found.last_transition_time.as_ref().unwrap().0
    };
    let second = render(Some(&old(first)), &observed(Some("gone")), at(2));
    assert_eq!(transition(&second, "Ready"), at(2));
    assert_eq!(transition(&second, "DiskPressure"), at(1));
}

#[tokio::test]
async fn a_change_that_no_condition_shows_wakes_nobody() {
    let (network, rx) = watch::channel(Status::default());
    let (_runtime, runtime) = watch::channel(RuntimeStatus::default());
    let mut signals = Signals { network: rx, runtime };
    let said = all(&signals.observe());
    let mut waiting = Box::pin(differ(&mut signals, &said));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    network.send_modify(|_| {});
    assert!(futures_util::poll!(&mut waiting).is_pending());
    network.send_modify(|it| it.fault = Some("gone".into()));
    assert!(futures_util::poll!(&mut waiting).is_ready());
}
