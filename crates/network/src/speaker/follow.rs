//! The speaker and the pod network: peers in one direction, routes in the other.

use std::sync::{Arc, Mutex};

use lifecycle::Tasks;
use stdx::error_chain;

use super::Heard;
use super::task::{self, Place};
use super::wanted::wanted;
use crate::network::{State, lock};
use crate::node::PodRange;

/// Does nothing where nobody speaks BGP.
pub(crate) fn follow(tasks: &Tasks, state: &Arc<Mutex<State>>) {
    let (place, wanted) = {
        let locked = lock(state);
        if !locked.backend.speaks_bgp() {
            return;
        }
        let node = locked.this_node(std::collections::BTreeMap::new());
        let place = Place {
            bgp: locked.bgp.clone(),
            namespace: locked.kernel.namespace(),
            node: locked.place.name().to_owned(),
            local: node.local,
            families: locked.ranges.iter().map(PodRange::family).collect(),
            has_restarted: !locked.heard.routes.is_empty(),
        };
        (place, locked.wanted.subscribe())
    };
    let mut heard = task::spawn(tasks, place, wanted);
    let state = state.clone();
    tasks.spawn("bgp-routes", |shutdown| async move {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                changed = heard.changed() => if changed.is_err() { return },
            }
            let (now, state) = (heard.borrow_and_update().clone(), state.clone());
            let taking = move || lock(&state).hear(now);
            match tokio::task::spawn_blocking(taking).await {
                Ok(Ok(())) => {}
                // Whoever follows the kernel mends it.
                Ok(Err(err)) => {
                    let error = error_chain(&err);
                    tracing::warn!(error, "routes that were heard by BGP");
                }
                Err(_) => return,
            }
        }
    });
}

impl State {
    /// Whoever speaks for the node hears whom it is to speak with.
    pub(crate) fn tell_speaker(&self) {
        if self.backend.speaks_bgp() {
            let node = self.this_node(std::collections::BTreeMap::new());
            let now = Some(wanted(&self.bgp, &node, &self.peers));
            self.wanted.send_if_modified(|it| std::mem::replace(it, now.clone()) != now);
        }
    }

    fn hear(&mut self, heard: Heard) -> Result<(), node_api::Error> {
        let heard = heard.after(&self.heard);
        if heard == self.heard {
            return Ok(());
        }
        self.heard = heard;
        self.converge()
    }
}
