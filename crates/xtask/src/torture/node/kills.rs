//! `kill -9` again and again under chatty pods: no container ends, no line and no exit code is lost.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::host::{Host, chatty, pod, processes, send};
use crate::say;

/// Every so many rounds a container ends while nobody looks.
const MORTAL_EVERY: usize = 5;
/// What ends it, and the code that must be told.
const ENDS: &[(&str, &str)] = &[("KILL", "137"), ("TERM", "0")];

pub(super) fn run(binary: &Path, pods: usize, rounds: usize) -> Result<()> {
    let mut host = Host::new(binary)?;
    host.up()?;
    host.apply(&chatty(pods))?;
    host.wait_ready("app=chatty", pods)?;
    let before = host.containers("app=chatty")?;
    let mut ended = 0;
    for round in 0..rounds {
        // At another moment of its life each time.
        std::thread::sleep(Duration::from_millis((round as u64 * 137) % 400));
        if round % MORTAL_EVERY == 0 {
            end_meanwhile(&mut host, round, ENDS[ended % ENDS.len()])?;
            ended += 1;
        } else {
            host.kill()?;
            host.up()?;
        }
        if round % 50 == 49 {
            say(&format!("{:>12}  kills", round + 1));
        }
    }
    let after = host.containers("app=chatty")?;
    ensure!(after == before, "containers are others than before:\n{before}\n{after}");
    let mut lines = 0;
    for n in 0..pods {
        lines += host.check_log(&format!("chatty-{n}"))?;
    }
    say(&format!(
        "{rounds:>12}  kills: {pods} containers go on, {lines} lines without a gap, {ended} exit codes told"
    ));
    Ok(())
}

fn end_meanwhile(host: &mut Host, round: usize, (signal, code): (&str, &str)) -> Result<()> {
    // A command line that no other process has.
    let seconds = format!("{}.{round}", 1_000_000 + std::process::id());
    let manifest = pod("mortal", "mortal", &format!("[sleep, '{seconds}']"));
    host.apply(&format!("{manifest}  restartPolicy: Never\n"))?;
    host.wait_ready("app=mortal", 1)?;
    host.kill()?;
    let pids = processes(&["sleep", &seconds])?;
    ensure!(pids.len() == 1, "the container that is to end has processes {pids:?}");
    send(signal, pids[0])?;
    host.up()?;
    let template = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    host.until(&["get", "pod", "mortal", "-o", template], |it| it == code)?;
    host.kubectl(&["delete", "pod", "mortal"]).map(drop)
}
