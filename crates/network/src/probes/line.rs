//! Asking what is to be asked of a way: all sockets of it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use linux::echo::Echo;
use linux::netlink::ethtool::Ethtool;
use linux::network_namespace::run_in;
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, MutexGuard};

use super::step::{Ask, Probing, Step};
use super::{Checksums, Target, Tunnel, Verdict};
use crate::follow::watched;

/// A question is asked so often, and each answer waited for so long.
const TRIES: u16 = 3;
const PATIENCE: Duration = Duration::from_millis(300);
/// Of `discard`, on which nobody listens: the other kernel refuses, which is an answer.
const PORT: u16 = 9;
/// Of a packet that every machine takes.
const SHORT: u32 = 100;

pub(super) struct Line {
    /// A file that names the network namespace.
    namespace: PathBuf,
    next_identifier: AtomicU16,
    /// Whether checksums are computed here because of us. One way at a time finds out.
    has_repaired: Mutex<bool>,
}

impl Line {
    pub(super) fn new(namespace: PathBuf) -> Self {
        Self { namespace, next_identifier: AtomicU16::new(1), has_repaired: Mutex::new(false) }
    }

    /// An error: nothing can be asked.
    pub(super) async fn probe(&self, target: &Target) -> io::Result<Verdict> {
        let leaves_checksums = match &target.tunnel {
            Some(tunnel) => self.leaves_checksums(tunnel),
            None => false,
        };
        let mut probing = Probing::new(target.to, target.mtu, leaves_checksums);
        let (mut ask, mut finding_out) = (probing.first(), None);
        loop {
            let is_answered = match ask {
                Ask::Echo(length) => self.echo(target.from, target.to, length).await?,
                Ask::Machine => match target.machines {
                    Some((local, remote)) => self.echo(local, remote, SHORT).await?,
                    None => false,
                },
                Ask::Datagram => self.datagram(target).await?,
                Ask::LeaveChecksums(leaves) => {
                    if finding_out.is_none() {
                        finding_out = Some(self.has_repaired.lock().await);
                    }
                    self.switch(target, leaves, finding_out.as_ref())
                }
            };
            match probing.step(is_answered) {
                Step::Ask(next) => ask = next,
                Step::Done(verdict) => {
                    if let (Some(repaired), true) = (&mut finding_out, is_repaired(&verdict)) {
                        **repaired = true;
                    }
                    return Ok(self.with_source(verdict, target));
                }
            }
        }
    }

    /// Packets as they leave this link are not what a link without hardware can be blamed for.
    fn leaves_checksums(&self, tunnel: &Tunnel) -> bool {
        let asked = Ethtool::open_in(&self.namespace)
            .and_then(|it| it.map_or(Ok(false), |mut it| it.leaves_checksums(&tunnel.link)));
        asked.unwrap_or(false)
    }

    /// Whether it was done. What others need is not switched back.
    fn switch(
        &self,
        target: &Target,
        leaves: bool,
        has_repaired: Option<&MutexGuard<'_, bool>>,
    ) -> bool {
        let Some(tunnel) = &target.tunnel else { return false };
        if leaves && has_repaired.is_some_and(|it| **it) {
            return false;
        }
        let ethtool = Ethtool::open_in(&self.namespace).ok().flatten();
        ethtool.is_some_and(|mut it| it.leave_checksums(&tunnel.link, leaves).is_ok())
    }

    async fn echo(&self, from: IpAddr, to: IpAddr, length: u32) -> io::Result<bool> {
        let identifier = self.next_identifier.fetch_add(1, Ordering::Relaxed);
        let open = || Echo::open(from, to, identifier);
        let echo = run_in(&self.namespace, open).map_err(|err| err.source)??;
        let echo = watched(echo)?;
        for sequence in 1..=TRIES {
            // Whatever else keeps it from being sent, such as a route that is missing, may pass.
            if echo.get_ref().ask(sequence, length as usize).is_err_and(|err| is_too_long(&err)) {
                return Ok(false);
            }
            match tokio::time::timeout(PATIENCE, answered(&echo)).await {
                Ok(answer) => return answer,
                Err(_) => {}
            }
        }
        Ok(false)
    }

    async fn datagram(&self, target: &Target) -> io::Result<bool> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(SocketAddr::new(target.from, 0))?;
            socket.connect(SocketAddr::new(target.to, PORT))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = run_in(&self.namespace, open).map_err(|err| err.source)??;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        for _ in 0..TRIES {
            // What was refused before is told here, which is as good an answer.
            if socket.send(b"xebec").await.is_err() {
                return Ok(true);
            }
            let mut buffer = [0; 1];
            if tokio::time::timeout(PATIENCE, socket.recv(&mut buffer)).await.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where packets for the machine there leave from, if not from this node's address.
    fn with_source(&self, verdict: Verdict, target: &Target) -> Verdict {
        let Verdict::Silent { machine_answers, .. } = verdict else { return verdict };
        let source = target.machines.and_then(|(local, remote)| {
            let unspecified: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let open = || -> io::Result<SocketAddr> {
                let socket = UdpSocket::bind(SocketAddr::new(unspecified, 0))?;
                socket.connect(SocketAddr::new(remote, PORT))?;
                socket.local_addr()
            };
            let source = run_in(&self.namespace, open).ok()?.ok()?.ip();
            (source != local).then_some(source)
        });
        Verdict::Silent { machine_answers, source }
    }
}

fn is_repaired(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Reached { checksums: Checksums::Repaired, .. })
}

fn is_too_long(err: &io::Error) -> bool {
    err.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error())
}

/// Returns when it is known whether there is an answer.
async fn answered(echo: &AsyncFd<Echo>) -> io::Result<bool> {
    loop {
        let mut ready = echo.readable().await?;
        match echo.get_ref().answered() {
            Ok(Some(_)) => return Ok(true),
            Ok(None) => ready.clear_ready(),
            Err(err) if is_too_long(&err) => return Ok(false),
            // Somebody on the way has said something else, which need not be the last word.
            Err(_) => {}
        }
    }
}
