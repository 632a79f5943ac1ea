//! Quotas, as kubectl makes, shows and meets them.

use crate::cluster::Cluster;

#[test]
fn a_quota_is_shown_with_its_use_and_refuses_what_is_too_much() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["create", "quota", "team", "--hard=pods=1,count/deployments.apps=1"]);
    let quota = ["get", "quota", "team", "--no-headers"];
    cluster.until(&quota, |it| it.contains("count/deployments.apps: 0/1, pods: 0/1"));
    cluster.ok(&["run", "one", "--image=xebec.local/toolbox"]);
    let refusal = cluster.refused(&["run", "two", "--image=xebec.local/toolbox"]);
    let expected = "Error from server (Forbidden): pods \"two\" is forbidden: exceeded quota: team, \
        requested: pods=1, used: pods=1, limited: pods=1";
    assert!(refusal.contains(expected), "{refusal}");
    let described = cluster.ok(&["describe", "quota", "team"]);
    assert!(described.contains("pods                    1     1"), "{described}");
    cluster.ok(&["delete", "pod", "one"]);
    cluster.until(&quota, |it| it.contains("pods: 0/1"));
    cluster.ok(&["run", "two", "--image=xebec.local/toolbox"]);
}
