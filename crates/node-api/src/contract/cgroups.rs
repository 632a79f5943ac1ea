//! Promises of [`Cgroups`].

use std::time::Duration;

use crate::Cgroups;
use crate::containers::{CpuQuota, Resources};

/// Below `root`, a name that nobody uses.
pub async fn all(cgroups: &dyn Cgroups, root: &str) {
    parents_are_made(cgroups, root).await;
    limits_can_change(cgroups, root).await;
    removing_takes_everything_below(cgroups, root).await;
    the_machine_never_uses_less(cgroups).await;
}

pub async fn the_machine_never_uses_less(cgroups: &dyn Cgroups) {
    let before = cgroups.machine().await.expect("machine");
    let after = cgroups.machine().await.expect("machine");
    assert!(after.cpu >= before.cpu, "{before:?} {after:?}");
}

async fn children(cgroups: &dyn Cgroups, name: &str) -> Vec<String> {
    let mut children = cgroups.children(name).await.expect("children");
    children.sort();
    children
}

fn limits() -> Resources {
    Resources {
        cpu_shares: Some(512),
        cpu_quota: Some(CpuQuota {
            quota: Duration::from_millis(50),
            period: Duration::from_millis(100),
        }),
        memory_limit: Some(64 << 20),
        ..Resources::default()
    }
}

pub async fn parents_are_made(cgroups: &dyn Cgroups, root: &str) {
    cgroups.ensure(&format!("{root}/burstable/pod1"), limits()).await.expect("ensure");
    cgroups.ensure(&format!("{root}/pod2"), Resources::default()).await.expect("ensure");
    assert_eq!(children(cgroups, root).await, ["burstable", "pod2"]);
    assert_eq!(children(cgroups, &format!("{root}/burstable")).await, ["pod1"]);
}

pub async fn limits_can_change(cgroups: &dyn Cgroups, root: &str) {
    let name = format!("{root}/pod3");
    for resources in [limits(), limits(), Resources::default()] {
        cgroups.ensure(&name, resources).await.expect("ensure");
    }
    cgroups.usage(&name).await.expect("usage");
}

pub async fn removing_takes_everything_below(cgroups: &dyn Cgroups, root: &str) {
    cgroups.ensure(&format!("{root}/a/b/c"), Resources::default()).await.expect("ensure");
    cgroups.remove(&format!("{root}/a")).await.expect("remove");
    assert!(!children(cgroups, root).await.contains(&"a".to_owned()));
    cgroups.remove(root).await.expect("remove");
    cgroups.remove(root).await.expect("removing what is gone succeeds");
    assert!(cgroups.usage(root).await.is_err(), "what is gone uses nothing, and says so");
}
