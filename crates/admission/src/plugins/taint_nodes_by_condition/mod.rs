//! A new node is not ready until its conditions say so: it starts tainted.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::core::Node;
use k8s_openapi::api::core::v1::Taint;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub struct TaintNodesByCondition;

fn taint(node: &mut Node) {
    let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !taints.iter().any(|it| it.key == NOT_READY && it.effect == "NoSchedule") {
        taints.push(Taint {
            key: NOT_READY.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
}

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && request.operation == Operation::Create
            && request.is("", "nodes", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        context.object_as_mut::<Node>().into_iter().for_each(taint);
        Box::pin(ready(Ok(())))
    }
}
