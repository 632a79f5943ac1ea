//! Every rule of `kvstore::contract`, each on a fresh cluster of one member.

use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use kvstore::contract::{Traits, rules};

use crate::member::{Member, etcd};
use crate::{config, connect};

/// etcd's members take their time to start, not the processor's.
const AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_keeps_the_contract() {
    let Some(program) = etcd() else { return };
    let rules = rules(Traits { stamps: false, alone: false });
    let checks = rules.into_iter().map(|rule| {
        let program = program.clone();
        async move {
            let started = tokio::task::spawn_blocking(move || Member::start(&program));
            let member = started.await.unwrap();
            let engine = connect(config(&[&member.client_url])).await;
            let check = AssertUnwindSafe(rule.check(engine.clone())).catch_unwind();
            check.await.err().map(|_| rule.name)
        }
    });
    let broken: Vec<_> =
        stream::iter(checks).buffer_unordered(AT_ONCE).filter_map(async |it| it).collect().await;
    assert!(broken.is_empty(), "broken rules: {broken:#?}");
}
