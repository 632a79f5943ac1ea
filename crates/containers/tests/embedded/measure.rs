//! How long a sandbox and a container take to start, and what a holder at rest costs. Prints;
//! asserts nothing about time.

use std::fs;
use std::time::Duration;

use crate::bed::Bed;
use crate::leftovers;

const ROUNDS: u32 = 20;

pub(crate) async fn starting_and_resting() {
    let bed = Bed::new();
    let node = bed.open().await;
    let (mut sandboxes, mut containers) = (Vec::new(), Vec::new());
    let mut last = None;
    for n in 0..ROUNDS {
        let begin = tokio::time::Instant::now();
        let sandbox = node.sandboxes().create(bed.sandbox(&format!("pod{n}"))).await.unwrap().id;
        sandboxes.push(begin.elapsed());
        let begin = tokio::time::Instant::now();
        node.started(&sandbox, &bed.container("main", "echo started; sleep 1000")).await;
        containers.push(begin.elapsed());
        last = Some(sandbox);
    }
    let middle = |mut it: Vec<Duration>| {
        it.sort();
        it[it.len() / 2]
    };
    println!("sandbox {:?}, container {:?} (medians)", middle(sandboxes), middle(containers));
    let holder = leftovers::holder(&bed, &last.unwrap());
    // Its pages are given back after two quiet seconds.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = fs::read_to_string(format!("/proc/{holder}/status")).unwrap();
    for line in status.lines().filter(|it| it.starts_with("VmRSS") || it.starts_with("Rss")) {
        println!("holder {line}");
    }
    node.purge().await;
}
