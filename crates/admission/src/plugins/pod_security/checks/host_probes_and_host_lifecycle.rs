//! Probes and hooks reach the pod itself: another host would be asked by the node, from where the
//! pod may not get to.

use k8s_openapi::api::core::v1::{HTTPGetAction, TCPSocketAction};

use super::Subject;
use super::subject::Seen;
use super::text::{Values, Violation, containers, plural, quoted};

fn hosts_of<'a>(
    http: Option<&'a HTTPGetAction>,
    tcp: Option<&'a TCPSocketAction>,
) -> impl Iterator<Item = &'a str> {
    let http = http.and_then(|it| it.host.as_deref());
    let tcp = tcp.and_then(|it| it.host.as_deref());
    http.into_iter().chain(tcp).filter(|it| !it.is_empty())
}

fn hosts<'a>(container: &Seen<'a>) -> Values<'a> {
    let probes = container.probes.into_iter().flatten();
    let probed = probes.flat_map(|it| hosts_of(it.http_get.as_ref(), it.tcp_socket.as_ref()));
    let lifecycle = container.lifecycle.into_iter();
    let hooks = lifecycle.flat_map(|it| [it.post_start.as_ref(), it.pre_stop.as_ref()]).flatten();
    let hooked = hooks.flat_map(|it| hosts_of(it.http_get.as_ref(), it.tcp_socket.as_ref()));
    probed.chain(hooked).collect()
}

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let (mut names, mut all) = (Values::new(), Values::new());
    for container in pod.containers() {
        let hosts = hosts(&container);
        if !hosts.is_empty() {
            names.insert(container.name);
            all.extend(hosts);
        }
    }
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural(names.len(), "uses", "use"),
            plural(all.len(), "probe or lifecycle host", "probe or lifecycle hosts"),
            quoted(all)
        ),
    })
}
