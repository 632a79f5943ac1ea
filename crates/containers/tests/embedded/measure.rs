//! How long a sandbox, a container, a command and the adoption of many pods take, and what a holder
//! at rest costs. Prints; asserts nothing about time.

use std::fs;
use std::time::Duration;

use crate::bed::Bed;
use crate::leftovers;

const ROUNDS: u32 = 20;
const COMMANDS: u32 = 100;
const ADOPTED: usize = 200;

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

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

pub(crate) async fn commands() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("pod")).await.unwrap().id;
    let id = node.started(&sandbox, &bed.container("main", "sleep 1000")).await;
    let mut times = Vec::new();
    for _ in 0..COMMANDS {
        let begin = tokio::time::Instant::now();
        let command = vec!["/bin/true".to_owned()];
        let output = node.containers().exec_output(&id, command, crate::bed::PATIENCE, 10).await;
        assert_eq!(output.unwrap().code, 0);
        times.push(begin.elapsed());
    }
    println!("command to its end {:?} (median)", middle(times));
    node.purge().await;
}

pub(crate) async fn adoption() {
    let bed = Bed::new();
    let mut node = bed.open().await;
    for n in 0..ADOPTED {
        let sandbox = node.sandboxes().create(bed.sandbox(&format!("pod{n}"))).await.unwrap().id;
        node.started(&sandbox, &bed.container("main", "sleep 1000")).await;
    }
    let mut times = Vec::new();
    for _ in 0..5 {
        node.forget().await;
        let begin = tokio::time::Instant::now();
        node = bed.open().await;
        times.push(begin.elapsed());
        assert_eq!(node.sandboxes().list().len(), ADOPTED);
    }
    println!("{ADOPTED} pods adopted within {:?} (median), {times:?}", middle(times.clone()));
    // Their pages are given back after two quiet seconds, and have to come again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    node.forget().await;
    let begin = tokio::time::Instant::now();
    node = bed.open().await;
    println!("{ADOPTED} pods at rest adopted within {:?}", begin.elapsed());
    node.purge().await;
}
