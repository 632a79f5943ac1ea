//! Which API servers a node can go to: those that the EndpointSlice `default/kubernetes` names, as
//! long as it runs, and those that were last named when it starts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use api::discovery::EndpointSlice;
use client::Client;
use client::https::Servers;
use informer::{EventHandler, Factory, Selection};
use lifecycle::Tasks;
use stdx::World;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Keeps them for the next start.
type Keep = dyn Fn(&[SocketAddr]) -> Result<()> + Send + Sync;

/// Returns at once.
pub(crate) fn follow_servers(
    client: &Client,
    servers: &Servers,
    keep: impl Fn(&[SocketAddr]) -> Result<()> + Send + Sync + 'static,
    tasks: &Tasks,
    world: &World,
) {
    let factory = Factory::new(client.clone(), world.clone(), tasks);
    let slices = factory.informer_of::<EndpointSlice>(Selection {
        namespace: NAMESPACE.to_owned(),
        field_selector: format!("metadata.name={NAME}"),
    });
    slices.add_event_handler(Arc::new(Note { servers: servers.clone(), keep: Box::new(keep) }));
    factory.start();
}

struct Note {
    servers: Servers,
    keep: Box<Keep>,
}

impl EventHandler<EndpointSlice> for Note {
    fn on_add(&self, slice: &Arc<EndpointSlice>, _is_initial: bool) {
        self.note(slice);
    }

    fn on_update(&self, _old: &Arc<EndpointSlice>, new: &Arc<EndpointSlice>) {
        self.note(new);
    }

    /// Those that were known are as good as any.
    fn on_delete(&self, _last: &Arc<EndpointSlice>) {}
}

impl Note {
    fn note(&self, slice: &EndpointSlice) {
        let named = named(slice);
        if named.is_empty() || *self.servers.all() == *named {
            return;
        }
        tracing::info!(servers = ?named, "the API servers of the cluster");
        self.servers.set(&named);
        if let Err(err) = (self.keep)(&named) {
            let error = format!("{err:#}");
            tracing::warn!(error, "the next start will not know all API servers");
        }
    }
}

/// Those that can be somewhere else than here.
fn named(slice: &EndpointSlice) -> Vec<SocketAddr> {
    let port = slice.ports.iter().flatten().find_map(|it| u16::try_from(it.port?).ok());
    let Some(port) = port.filter(|it| *it != 0) else { return Vec::new() };
    let ready = slice.endpoints.iter().flatten();
    let ready = ready.filter(|it| it.conditions.as_ref().is_none_or(|it| it.ready != Some(false)));
    let addresses = ready.flat_map(|it| &it.addresses).filter_map(|it| it.parse::<IpAddr>().ok());
    let elsewhere = addresses.filter(|it| !it.is_loopback() && !it.is_unspecified());
    elsewhere.map(|it| SocketAddr::new(it, port)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use api::discovery::EndpointSlice;
    use client::https::Servers;
    use serde_json::json;

    use super::{Note, named};

    fn slice(addresses: &[&str], port: Option<i32>) -> EndpointSlice {
        let endpoints: Vec<_> = addresses
            .iter()
            .map(|it| match it.strip_prefix('!') {
                Some(away) => json!({"addresses": [away], "conditions": {"ready": false}}),
                None => json!({"addresses": [it]}),
            })
            .collect();
        let ports: Vec<_> = port.iter().map(|it| json!({"name": "https", "port": it})).collect();
        let slice = json!({"metadata": {"name": "kubernetes"}, "addressType": "IPv4",
            "endpoints": endpoints, "ports": ports});
        serde_json::from_value(slice).unwrap()
    }

    #[test]
    fn servers_are_ready_endpoints_that_others_reach() {
        let check = |addresses: &[&str], port: Option<i32>, expected: &str| {
            let found: Vec<_> =
                named(&slice(addresses, port)).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), expected);
        };
        check(&["192.0.2.1", "fd00::1"], Some(6443), "192.0.2.1:6443 [fd00::1]:6443");
        check(&["127.0.0.1", "!192.0.2.2", "192.0.2.3", "nonsense"], Some(1), "192.0.2.3:1");
        check(&["192.0.2.1"], None, "");
        check(&["192.0.2.1"], Some(0), "");
        check(&["192.0.2.1"], Some(70_000), "");
    }

    #[test]
    fn what_is_known_is_kept_until_there_is_something_else() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeping = kept.clone();
        let note = Note {
            servers: Servers::default(),
            keep: Box::new(move |it| {
                keeping.lock().unwrap().push(it.to_vec());
                Ok(())
            }),
        };
        for addresses in [&["192.0.2.1"][..], &["192.0.2.1"], &[], &["192.0.2.2", "192.0.2.1"]] {
            note.note(&slice(addresses, Some(6443)));
        }
        let last = ["192.0.2.2:6443".parse().unwrap(), "192.0.2.1:6443".parse().unwrap()];
        assert_eq!(*note.servers.all(), last);
        let first = vec!["192.0.2.1:6443".parse().unwrap()];
        assert_eq!(*kept.lock().unwrap(), [first, last.to_vec()]);
    }
}
