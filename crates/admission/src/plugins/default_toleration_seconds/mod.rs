//! A pod stays five minutes on a node that is not ready or out of reach, unless it says otherwise.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::core::Pod;
use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const EFFECT: &str = "NoExecute";
const SECONDS: i64 = 300;

pub struct DefaultTolerationSeconds;

/// An empty key or effect tolerates every key or effect.
fn is_about(toleration: &Toleration, taint: &str) -> bool {
    let is_or_empty = |text: &Option<String>, value: &str| {
        text.as_deref().is_none_or(|it| it.is_empty() || it == value)
    };
    is_or_empty(&toleration.key, taint) && is_or_empty(&toleration.effect, EFFECT)
}

fn tolerate(spec: &mut PodSpec) {
    for taint in TAINTS {
        if spec.tolerations.iter().flatten().any(|it| is_about(it, taint)) {
            continue;
        }
        spec.tolerations.get_or_insert_default().push(Toleration {
            key: Some(taint.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(EFFECT.to_owned()),
            toleration_seconds: Some(SECONDS),
            value: None,
        });
    }
}

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && request.is("", "pods", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        let spec = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut());
        spec.into_iter().for_each(tolerate);
        Box::pin(ready(Ok(())))
    }
}
