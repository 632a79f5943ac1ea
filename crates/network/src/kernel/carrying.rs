//! The worker that carries packets of a link, as this node sees it: what it has, and what it is
//! given.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use linux::netlink::route::{Link, LinkChange};
use linux::tun::Tun;
use packets::{Listening, Part, Place, Tunnel, Worker};
use rustix::io::Errno;
use tokio::sync::watch;

use super::{Error, Kernel};

/// As the kernel calls the kind of such links.
const KIND: &str = "tun";

pub(super) struct Carrying {
    place: Option<Place>,
    /// How often one was given a link.
    started: watch::Sender<u64>,
}

impl Carrying {
    pub(super) fn new(place: Option<Place>) -> Self {
        Self { place, started: watch::Sender::new(0) }
    }

    /// What is carried of the link with this index; nothing if nobody has its end.
    pub(super) fn observe(&self, index: u32) -> Result<Tunnel, Error> {
        let Some(place) = &self.place else { return Ok(Tunnel::default()) };
        let Some(mut worker) = Worker::find(place)? else { return Ok(Tunnel::default()) };
        let (link, tunnel) = worker.tunnel()?;
        Ok(if link == Some(index) { tunnel } else { Tunnel::default() })
    }

    pub(super) fn follow(&self) -> Option<Carried> {
        let (place, started) = (self.place.clone()?, self.started.subscribe());
        let listening = Listening::start(&place, Part::Tunnel).ok().flatten();
        Some(Carried { place, started, listening })
    }
}

/// To know when a worker has ended.
pub(crate) struct Carried {
    place: Place,
    started: watch::Receiver<u64>,
    listening: Option<Listening>,
}

impl Carried {
    /// May be dropped and called again at any time.
    pub(crate) async fn ended(&mut self) {
        while let Some(listening) = &mut self.listening {
            match listening.next().await {
                Some(words) => tracing::warn!(words, "the worker of the pod network"),
                None => {
                    self.listening = None;
                    return tracing::error!("the worker of the pod network has ended");
                }
            }
        }
        if self.started.changed().await.is_err() {
            return std::future::pending().await;
        }
        // Also if it has ended by now: then whoever looks sees it.
        self.listening = Listening::start(&self.place, Part::Tunnel).ok().flatten();
    }
}

impl Kernel {
    /// Ours from the first moment on that it can outlive us.
    pub(super) fn create_tun(&mut self, name: &str, mtu: u32) -> Result<(), Error> {
        let failed = |source| Error::NoTun { name: name.to_owned(), source };
        let tun = self.namespace.run(|| Tun::create(name))?.map_err(|source| {
            if source.raw_os_error() == Some(Errno::BUSY.raw_os_error()) {
                let doing = format!("add {KIND} link {name}");
                let (name, cluster) = (name.to_owned(), self.cluster);
                let source = linux::netlink::Error { doing, source };
                return Error::TakenLink { name, cluster, source };
            }
            failed(source)
        })?;
        let link = self.routes.link(name)?.ok_or_else(|| Error::NoLink(name.to_owned()))?;
        let group = Some(self.cluster.link_group());
        let change = LinkChange { mtu: Some(mtu), group, ..LinkChange::default() };
        self.routes.change_link(&link, change)?;
        tun.keep().map_err(failed)
    }

    /// Finds or starts a worker, and gives it what it has not.
    pub(super) fn carry(&mut self, link: &Link, tunnel: &Tunnel) -> Result<(), Error> {
        let Some(place) = &self.carrying.place else {
            return Err(Error::NoLink(link.name.clone()));
        };
        let mut worker = self.namespace.run(|| Worker::find_or_start(place))??;
        let (index, told) = worker.tunnel()?;
        if let Some(local) = tunnel.local.filter(|_| told.local != tunnel.local) {
            let socket = self.namespace.run(|| UdpSocket::bind(local))?;
            let socket = socket.map_err(|source| Error::Listen { local, source })?;
            let nonblocking = socket.set_nonblocking(true);
            nonblocking.map_err(|source| Error::Listen { local, source })?;
            worker.give_socket(local, socket)?;
        }
        worker.set_ways(tunnel)?;
        if index != Some(link.index) {
            let end = self.namespace.run(|| Tun::attach(&link.name))?;
            let failed = |source| Error::NoTun { name: link.name.clone(), source };
            worker.give_link(link.index, OwnedFd::from(end.map_err(failed)?))?;
            self.carrying.started.send_modify(|it| *it += 1);
        }
        Ok(())
    }

    /// Before the link goes.
    pub(super) fn carry_no_more(&mut self, name: &str) -> Result<(), Error> {
        let Some(place) = &self.carrying.place else { return Ok(()) };
        let is_carried = |it: &Link| it.kind.as_deref() == Some(KIND);
        let link = self.routes.link(name)?.filter(|it| is_carried(it));
        if link.is_some_and(|it| self.is_ours(&it))
            && let Some(mut worker) = Worker::find(place)?
        {
            worker.drop_tunnel()?;
        }
        Ok(())
    }
}
