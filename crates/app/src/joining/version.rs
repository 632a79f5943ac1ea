//! Whether this version may be a node of a cluster of that one.

use anyhow::{Context as _, Result};
use client::Client;

use super::{Place, Refusal};
use crate::control_plane::KUBERNETES_VERSION;

/// Asks the server, which also shows that it is the one that is believed.
pub(crate) async fn check_version(client: &Client, place: &Place) -> Result<()> {
    let answer = client.get_path("/version").await;
    let answer = answer.with_context(|| format!("asking the API server at {place}"))?;
    let version: serde_json::Value =
        serde_json::from_slice(&answer).context("reading the API server's version")?;
    let server = version["gitVersion"].as_str().unwrap_or_default();
    if is_skew_allowed(KUBERNETES_VERSION, server) {
        return Ok(());
    }
    let own = KUBERNETES_VERSION.to_owned();
    Err(Refusal::Version { place: place.clone(), own, server: server.to_owned() }.into())
}

/// Minor versions of a node's and a server's `v1.N...`: at most three older, and not newer.
fn is_skew_allowed(own: &str, server: &str) -> bool {
    let minor = |it: &str| {
        let mut parts = it.strip_prefix('v')?.split('.');
        (parts.next()? == "1").then_some(())?;
        parts.next()?.parse::<u32>().ok()
    };
    match (minor(own), minor(server)) {
        (Some(own), Some(server)) => own <= server && server - own <= 3,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_skew_allowed;

    #[test]
    fn a_node_is_not_newer_than_its_server_and_little_older() {
        let check = |server: &str, is_allowed: bool| {
            assert_eq!(is_skew_allowed("v1.36.0+xebec-0.1.0", server), is_allowed, "{server}");
        };
        check("v1.36.4", true);
        check("v1.39.0-alpha.1", true);
        check("v1.35.9", false);
        check("v1.40.0", false);
        check("v2.36.0", false);
        check("nonsense", false);
    }
}
