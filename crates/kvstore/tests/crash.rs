//! Kill under load: a child process writes and says what was acknowledged, dies by SIGKILL at some
//! point, and everything it was promised must be there, at the revision it was told.

use std::path::Path;
use std::process::Command;

use kvstore::torture;

const DIR: &str = "KVSTORE_CRASH_DIR";
const ROUND: &str = "KVSTORE_CRASH_ROUND";
const ROUNDS: u64 = 48;

/// Not a test: the body of the child, which is this program run again with `DIR` set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let (Ok(dir), Ok(round)) = (std::env::var(DIR), std::env::var(ROUND)) else { return };
    torture::kill_child(Path::new(&dir), round.parse().unwrap(), std::io::stdout()).await;
}

#[test]
fn acknowledged_writes_survive_a_kill_and_revisions_never_repeat() {
    let child = |dir: &Path, round: u64| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]);
        command.env(DIR, dir).env(ROUND, round.to_string());
        command
    };
    torture::kill(1, ROUNDS, &child);
}
