//! The server under load: its port, and its process as /proc shows it.

use std::fs;

use anyhow::{Context as _, Result};
use etcd::wire::channel::{Channel, Endpoint, Timing};
use lifecycle::Tasks;

pub(crate) struct Target {
    pub(crate) port: u16,
    pid: u32,
    pub(crate) tasks: Tasks,
}

impl Target {
    pub(crate) fn new(port: u16, pid: u32) -> Self {
        Self { port, pid, tasks: Tasks::new() }
    }

    pub(crate) async fn connect(&self) -> Result<Channel> {
        let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port: self.port, tls: None };
        Ok(Channel::connect(&endpoint, Timing::default(), &self.tasks).await?)
    }

    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        Self::cpu_seconds_of(self.pid)
    }

    pub(crate) fn cpu_seconds_of(pid: u32) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = fields.get(11).context("utime")?.parse::<f64>()?
            + fields.get(12).context("stime")?.parse::<f64>()?;
        Ok(ticks / 100.0)
    }

    pub(crate) fn resident_bytes(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = text.lines().find(|it| it.starts_with("VmRSS")).context("VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("VmRSS")?.parse()?;
        Ok(kib * 1024.0)
    }
}
