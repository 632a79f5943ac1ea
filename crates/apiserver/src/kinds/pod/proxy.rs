//! HTTP to a pod: `pods/[https:]name[:port]/proxy/path`.

use std::sync::Arc;

use api::core::{Node, Pod};
use apimachinery::ApiError;
use http::Response;

use crate::kubelets::refuse_simulated;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Exchange, StreamBody};
use crate::proxy::{self, Named, Target};

pub(super) async fn connect(
    core: &Arc<Core>,
    exchange: Exchange,
) -> Result<Response<StreamBody>, ApiError> {
    let asked = exchange.request.name();
    let named = Named::parse(asked)
        .ok_or_else(|| ApiError::bad_request(format!("invalid pod request {asked:?}")))?;
    core.cache.wait_current().await?;
    let pod = core.find_shared::<Pod>(exchange.request.namespace(), named.name)?;
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref()).unwrap_or_default();
    if let Ok(node) = core.find_shared::<Node>("", node) {
        refuse_simulated(&node)?;
    }
    let port = match named.port {
        "" => first_port(&pod),
        text => Some(proxy::port(text)?),
    };
    let addresses = pod.status.as_ref().and_then(|it| it.pod_ips.as_deref()).unwrap_or_default();
    let address = addresses.first().map_or("", |it| it.ip.as_str());
    let target = Target::new(address, port, proxy::tls(named.is_https)?)?;
    proxy::forward(core, &target, exchange).await
}

/// The first that any container has.
fn first_port(pod: &Pod) -> Option<u16> {
    let containers = pod.spec.iter().flat_map(|it| &it.containers);
    let mut ports = containers.flat_map(|it| it.ports.iter().flatten());
    ports.next().and_then(|it| u16::try_from(it.container_port).ok())
}
