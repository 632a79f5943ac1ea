//! What becomes of a process whose Lease is lost.

use crate::control_plane::{Component, ControlPlane};

const LEADER: &[&str] = &[
    "--leader-elect",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
    "--secure-port=0",
];

fn lead(plane: &ControlPlane, name: &str) -> Component {
    let kubeconfig = plane.data(&format!("{name}.kubeconfig"));
    plane.spawn(name, &[LEADER, &["--kubeconfig", &kubeconfig]].concat())
}

/// Whoever supervises it starts it anew, as it does upstream's.
#[test]
fn whose_lease_is_taken_ends_with_an_error() {
    let Some(plane) = ControlPlane::start() else { return };
    for (name, lease) in
        [("controller-manager", "kube-controller-manager"), ("scheduler", "kube-scheduler")]
    {
        let mut leader = lead(&plane, name);
        plane.until_led(lease, "");
        let other = r#"{"spec":{"holderIdentity":"other"}}"#;
        plane.run(&["patch", "lease", lease, "-n", "kube-system", "--type=merge", "-p", other]);
        assert_eq!(leader.end(), Some(1), "{}", leader.log());
        assert!(leader.log().contains("error: leaderelection lost"), "{}", leader.log());
        assert_eq!(plane.holder(lease), "other", "it is not given back");
    }
}

#[test]
fn who_cannot_renew_its_lease_ends_and_leads_again_when_it_is_started_again() {
    let Some(mut plane) = ControlPlane::start() else { return };
    let lease = "kube-controller-manager";
    let mut leader = lead(&plane, "controller-manager");
    let before = plane.until_led(lease, "");
    plane.until(&["get", "serviceaccounts"], |it| it.contains("default"));
    plane.kill_server();
    assert_eq!(leader.end(), Some(1), "{}", leader.log());
    assert!(leader.log().contains("error: leaderelection lost"), "{}", leader.log());
    plane.start_server();
    let mut next = lead(&plane, "controller-manager");
    plane.until_led(lease, &before);
    next.stop();
}
