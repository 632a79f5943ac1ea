//! Nodes are reached through the API: their kubelet, or another port of theirs
//! (`nodes/[https:]name[:port]/proxy/path`).

use std::sync::Arc;

use api::core::Node;
use api::{ApiObject, Dynamic, Kind};
use apimachinery::ApiError;
use bytes::Bytes;
use http::Response;
use kvstore::{Compare, Op};

use crate::cache::ObjectPath;
use crate::kubelets::{self, Kubelets, refuse_simulated};
use crate::pipeline::Core;
use crate::pipeline::deleted_nodes::{self, DeletedNodes};
use crate::pipeline::hooks::{Exchange, Hooks, Of, StreamBody, Streaming};
use crate::proxy::{self, Named, Target};

pub(crate) struct Nodes {
    kubelets: Arc<Kubelets>,
    deleted: Arc<DeletedNodes>,
}

impl Nodes {
    pub(crate) fn new(kubelets: Arc<Kubelets>, deleted: Arc<DeletedNodes>) -> Self {
        Self { kubelets, deleted }
    }

    async fn connect(
        &self,
        core: &Arc<Core>,
        exchange: Exchange,
    ) -> Result<Response<StreamBody>, ApiError> {
        let asked = exchange.request.name();
        let named = Named::parse(asked)
            .ok_or_else(|| ApiError::bad_request(format!("invalid node request {asked:?}")))?;
        core.cache.wait_current().await?;
        let node = core.find_shared::<Node>("", named.name)?;
        refuse_simulated(&node)?;
        let (host, kubelet_port) = kubelets::address(&node).unwrap_or_default();
        let port = match named.port {
            "" => kubelet_port,
            text => proxy::port(text)?,
        };
        if port == kubelet_port {
            // With this server's identity, to whoever proves to be that kubelet.
            let connection = self.kubelets.dial(&node).await?;
            let authority = format!("{host}:{port}");
            return proxy::forward_over(core, connection, &authority, exchange).await;
        }
        let target = Target::new(&host, Some(port), proxy::tls(named.is_https)?)?;
        proxy::forward(core, &target, exchange).await
    }
}

impl Hooks for Nodes {
    fn of(&self) -> &'static [Of] {
        &[("", "nodes")]
    }

    fn observe_other(&self, key: &str, value: Option<(&Bytes, u64)>) {
        self.deleted.follow(key, value);
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let (deleted, its) = (self.deleted.clone(), core.clone());
        core.tasks.spawn("deleted-nodes", |shutdown| deleted.run(its, shutdown));
    }

    fn beside(
        &self,
        core: &Core,
        _kind: &dyn Kind,
        path: &ObjectPath,
        new: Option<&dyn ApiObject>,
    ) -> Vec<(Option<Compare>, Op)> {
        let removed =
            new.is_none().then(|| deleted_nodes::put(path.as_str(), core.world.clock.now()));
        removed.map(|it| (None, it)).into_iter().collect()
    }

    fn stream_options(&self, exchange: &Exchange) -> Result<Option<Dynamic>, ApiError> {
        Ok(Some(proxy::options("NodeProxyOptions", exchange)))
    }

    fn connect<'a>(&'a self, core: &'a Arc<Core>, exchange: Exchange) -> Streaming<'a> {
        Box::pin(self.connect(core, exchange))
    }
}
