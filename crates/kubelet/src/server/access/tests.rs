//! For how long the API server's answers are kept.

use std::time::Duration;

use super::recent::Recent;

#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_their_time_and_not_without_end() {
    let recent = Recent::new();
    recent.put(0, "short", Duration::from_secs(30));
    for key in 1..=2_000 {
        recent.put(key, "long", Duration::from_secs(300));
    }
    assert_eq!(recent.get(&0), None, "what ends first makes room");
    assert_eq!(recent.get(&2_000), Some("long"));
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(recent.get(&2_000), None);
}
