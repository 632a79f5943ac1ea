//! Events of pods that lost their network and got it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use lifecycle::Shutdown;
use node_api::SandboxId;
use node_api::network::{Loss, Status};
use reconcile::EventType;
use tokio::sync::watch;

use crate::context::Context;

/// Tells of each loss and each mending once.
pub(super) async fn run(
    context: Arc<Context>,
    mut status: watch::Receiver<Status>,
    shutdown: Shutdown,
) {
    let mut told = BTreeMap::new();
    loop {
        let losses = status.borrow_and_update().losses.clone();
        for (loss, news) in news(&told, &losses) {
            let (kind, reason, message) = news.words(loss);
            context.recorder.event_about(reference(loss), kind, reason, message);
        }
        told = losses;
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            changed = status.changed() => if changed.is_err() { return },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Lost,
    Mended,
}

impl News {
    /// `NetworkNotReady` is upstream's reason.
    fn words(self, loss: &Loss) -> (EventType, &'static str, String) {
        match self {
            Self::Lost => {
                let message = format!("network is not ready: {}", loss.what);
                (EventType::Warning, "NetworkNotReady", message)
            }
            Self::Mended => {
                let message = format!("Connected to the network again ({})", loss.what);
                (EventType::Normal, "NetworkReady", message)
            }
        }
    }
}

/// What is to be told after the first, now that it is the second. What was lost and mended in
/// between is told too.
fn news<'a>(
    told: &BTreeMap<SandboxId, Loss>,
    losses: &'a BTreeMap<SandboxId, Loss>,
) -> Vec<(&'a Loss, News)> {
    let mut all = Vec::new();
    for (sandbox, loss) in losses {
        let before = told.get(sandbox);
        let is_new = before.is_none_or(|it| it.times != loss.times || it.what != loss.what);
        if is_new {
            all.push((loss, News::Lost));
        }
        if loss.is_mended && (is_new || before.is_some_and(|it| !it.is_mended)) {
            all.push((loss, News::Mended));
        }
    }
    all
}

fn reference(loss: &Loss) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(loss.pod.namespace.clone()),
        name: Some(loss.pod.name.clone()),
        uid: Some(loss.pod.uid.as_str().to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_api::{PodRef, PodUid};

    fn losses(times: u32, what: &str, is_mended: bool) -> BTreeMap<SandboxId, Loss> {
        let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: PodUid::new("u") };
        let loss = Loss { pod, what: what.to_owned(), times, is_mended, is_pods_own: false };
        BTreeMap::from([(SandboxId::new("s"), loss)])
    }

    #[test]
    fn each_loss_and_each_mending_is_told_once() {
        let check = |told: &BTreeMap<_, _>, losses: &BTreeMap<_, _>, expected: &[News]| {
            let told: Vec<News> = news(told, losses).into_iter().map(|(_, it)| it).collect();
            assert_eq!(told, expected, "{losses:?}");
        };
        let none = BTreeMap::new();
        check(&none, &losses(1, "gone", false), &[News::Lost]);
        check(&none, &losses(1, "gone", true), &[News::Lost, News::Mended]);
        check(&losses(1, "gone", false), &losses(1, "gone", false), &[]);
        check(&losses(1, "gone", false), &losses(1, "gone", true), &[News::Mended]);
        check(&losses(1, "gone", false), &losses(1, "cannot be made", false), &[News::Lost]);
        check(&losses(1, "gone", true), &losses(1, "gone", true), &[]);
        check(&losses(1, "gone", true), &losses(2, "gone", true), &[News::Lost, News::Mended]);
        check(&losses(1, "gone", true), &none, &[]);
    }
}
