//! Whether a node's name is free for this machine.

use std::net::IpAddr;

use anyhow::{Context as _, Result};
use client::Client;
use k8s_openapi::api::core::v1::Node;

use super::Refusal;

/// As the node that asks: it may read its own Node alone.
pub(crate) async fn check_name(
    client: &Client,
    name: &str,
    machine_id: &str,
    addresses: &[IpAddr],
) -> Result<()> {
    match client.api::<Node>().get("", name).await {
        Err(err) if err.is_not_found() => Ok(()),
        Err(err) => Err(err).with_context(|| format!("looking for the Node {name}")),
        Ok(node) => match owner(&node, machine_id, addresses) {
            None => Ok(()),
            Some(who) => Err(Refusal::NameTaken { name: name.to_owned(), who }.into()),
        },
    }
}

/// Who else has it. A Node of this machine is taken over; so is one that is not Ready, if the machine is
/// the same, whatever its addresses were.
fn owner(node: &Node, machine_id: &str, addresses: &[IpAddr]) -> Option<String> {
    let status = node.status.as_ref()?;
    let known: Vec<&str> =
        status.addresses.iter().flatten().map(|it| it.address.as_str()).collect();
    let of_node = status.node_info.as_ref().map(|it| it.machine_id.as_str()).unwrap_or_default();
    let at = known.join(", ");
    if of_node != machine_id {
        return Some(format!("machine ID {of_node} at {at}, here it is {machine_id}"));
    }
    let is_ready =
        status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    let is_here = addresses.iter().any(|it| known.contains(&it.to_string().as_str()));
    (is_ready && !is_here).then(|| format!("it is Ready, at {at}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::owner;

    #[test]
    fn a_name_is_taken_while_another_machine_has_it() {
        let check = |id: &str, address: &str, ready: &str, expected: Option<&str>| {
            let node: Node = serde_json::from_value(json!({
                "metadata": {"name": "b"},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": address}],
                    "conditions": [{"type": "Ready", "status": ready}],
                    "nodeInfo": {
                        "machineID": id, "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                        "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                        "operatingSystem": "", "architecture": ""
                    },
                },
            }))
            .unwrap();
            let found = owner(&node, "m1", &["192.0.2.2".parse().unwrap()]);
            assert_eq!(found.as_deref(), expected, "{id} {address} {ready}");
        };
        check("m1", "192.0.2.2", "True", None);
        check("m1", "192.0.2.9", "Unknown", None);
        check("m1", "192.0.2.9", "True", Some("it is Ready, at 192.0.2.9"));
        let other = "machine ID m2 at 192.0.2.2, here it is m1";
        check("m2", "192.0.2.2", "Unknown", Some(other));
    }
}
