//! `kill -9` while clients write: what they were told is there is there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::store;

const ROUNDS: usize = 3;
const WRITERS: usize = 3;

#[test]
fn what_was_acknowledged_survives_a_kill_while_writing() {
    let Some(mut cluster) = Cluster::start(0) else { return };
    let data = cluster.path("data");
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..ROUNDS {
        let is_over = AtomicBool::new(false);
        let before = acknowledged.lock().unwrap().len();
        let pid = cluster.pid().to_string();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (cluster, acknowledged, is_over) = (&cluster, &acknowledged, &is_over);
                scope.spawn(move || {
                    let mut index = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let name = format!("c-{round}-{writer}-{index}");
                        index += 1;
                        if cluster.run(&["create", "configmap", &name]).is_ok {
                            acknowledged.lock().unwrap().push(name);
                        }
                    }
                });
            }
            // Bounded, and long enough that every writer is in the middle of something.
            for _ in 0..600 {
                if acknowledged.lock().unwrap().len() >= before + 10 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            std::process::Command::new("kill").args(["-9", &pid]).status().unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        cluster.kill();
        assert!(acknowledged.lock().unwrap().len() >= before + 10, "{}", cluster.log());
        assert!(store(&data, &["check"]).contains("sound"), "a crash is no damage");
        cluster.restart(0);
        let found = cluster.ok(&["get", "configmaps", "-o", "name"]);
        for name in acknowledged.lock().unwrap().iter() {
            assert!(
                found.contains(&format!("configmap/{name}\n")),
                "round {round}: {name} is lost"
            );
        }
    }
}
