//! The knobs of the fake, where the contract does not reach.

use std::time::Duration;

use stdx::World;

use super::{Node, Program};
use crate::images::ImageConfig;
use crate::{Error, Images as _, PodUid, Volumes as _};

fn node() -> Node {
    Node::new(&World::simulated(1))
}

#[tokio::test(start_paused = true)]
async fn calls_fail_as_often_as_told() {
    let node = node();
    node.serve_image("nginx", ImageConfig::default()).unwrap();
    node.fail("images.pull nginx", 2, || Error::Refused("disk full".to_owned()));
    let mut results = Vec::new();
    for _ in 0..3 {
        results.push(node.pull("nginx", Vec::new()).await.is_ok());
    }
    assert_eq!(results, [false, false, true]);
    assert_eq!(node.take_calls(), ["images.pull nginx"; 3]);
    assert_eq!(node.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn calls_take_their_time() {
    let node = node();
    node.delay("volumes.tear_down", Duration::from_secs(5));
    let start = tokio::time::Instant::now();
    node.tear_down(&PodUid::new("1")).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn each_run_follows_its_script_and_the_last_repeats() {
    let node = node();
    node.script("app", [Program::refused("first"), Program::forever()]);
    let mut state = node.state();
    let refusals: Vec<Option<String>> = (0..3).map(|_| state.next_program("app").refusal).collect();
    assert_eq!(refusals, [Some("first".to_owned()), None, None]);
}
