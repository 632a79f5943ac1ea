//! The pods' addresses on this node, as its Node object says: `spec.podCIDRs`, given by whoever
//! gives them.

use std::sync::Arc;

use informer::{EventHandler, Factory, Selection};
use k8s_openapi::api::core::v1::Node;
use stdx::Cidr;
use tokio::sync::watch;

/// Known once the Node has some; never changes after that, as the field does not.
pub(crate) type PodRanges = watch::Receiver<Vec<Cidr>>;

/// To be called before the factory starts. The kubelet follows the same Node: it is one watch.
pub(crate) fn follow(factory: &Factory, node_name: &str) -> PodRanges {
    let field_selector = format!("metadata.name={node_name}");
    let nodes = factory.informer_of::<Node>(Selection { field_selector, ..Selection::default() });
    let (ranges, known) = watch::channel(Vec::new());
    nodes.add_event_handler(Arc::new(Note(ranges)));
    known
}

/// Waits for them. `None`: nobody will say any more.
pub(crate) async fn wait(ranges: &mut PodRanges) -> Option<Vec<Cidr>> {
    ranges.wait_for(|it| !it.is_empty()).await.ok().map(|it| it.clone())
}

/// Says so where the Node has other ranges than those that pods get addresses of.
pub(crate) async fn compare(mut ranges: PodRanges, kept: Vec<Cidr>) {
    let Some(given) = wait(&mut ranges).await else { return };
    if given != kept {
        tracing::error!(
            ?kept, of_node = ?given,
            "the Node has other addresses for pods than this node gives out: delete the Node, or remove this node's with --purge"
        );
    }
}

struct Note(watch::Sender<Vec<Cidr>>);

impl EventHandler<Node> for Note {
    fn on_add(&self, node: &Arc<Node>, _is_initial: bool) {
        self.note(node);
    }

    fn on_update(&self, _old: &Arc<Node>, new: &Arc<Node>) {
        self.note(new);
    }

    fn on_delete(&self, _last: &Arc<Node>) {}
}

impl Note {
    fn note(&self, node: &Node) {
        let ranges = of(node);
        if !ranges.is_empty() {
            self.0.send_if_modified(|it| std::mem::replace(it, ranges.clone()) != ranges);
        }
    }
}

/// What is no range was let through by nobody.
fn of(node: &Node) -> Vec<Cidr> {
    let Some(spec) = &node.spec else { return Vec::new() };
    let all = spec.pod_cidrs.as_deref().unwrap_or_default();
    let one = spec.pod_cidr.iter().filter(|_| all.is_empty());
    all.iter().chain(one).filter_map(|it| it.parse().ok()).collect()
}
