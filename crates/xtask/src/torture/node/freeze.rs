//! Holders that are stopped for a while, with `xebec` killed and started meanwhile, go on with all
//! that they hold.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::host::{Host, chatty, send};
use crate::say;

pub(super) fn run(binary: &Path, pods: usize, seconds: u64) -> Result<()> {
    let mut host = Host::new(binary)?;
    host.up()?;
    host.apply(&chatty(pods))?;
    host.wait_ready("app=chatty", pods)?;
    let before = host.containers("app=chatty")?;
    let holders = host.holders()?;
    let frozen = Frozen::new(&holders)?;
    host.kill()?;
    host.up()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let meanwhile = host.containers("app=chatty")?;
    ensure!(meanwhile == before, "silence was taken for death:\n{before}\n{meanwhile}");
    drop(frozen);
    for n in 0..pods {
        let name = format!("chatty-{n}");
        host.until(&["exec", &name, "--", "echo", "thawed"], |it| it.contains("thawed"))?;
        host.check_log(&name)?;
    }
    ensure!(host.containers("app=chatty")? == before, "a container was started again");
    ensure!(host.holders()? == holders, "a holder is another one than before");
    say(&format!("{pods:>12}  holders stopped for {seconds} s: all go on"));
    Ok(())
}

/// They go on when it is dropped, or nothing could be removed after an error.
struct Frozen<'a>(&'a [i64]);

impl<'a> Frozen<'a> {
    fn new(holders: &'a [i64]) -> Result<Self> {
        let frozen = Self(holders);
        holders.iter().try_for_each(|it| send("STOP", *it))?;
        Ok(frozen)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|it| drop(send("CONT", *it)));
    }
}
