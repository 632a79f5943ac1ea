//! From the link to the socket, and back: a task for each direction.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use linux::datagrams::{self, Batch};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use super::packet;
use super::table::{Table, Verdict};
use crate::watched::watched;

/// The longest packet of IPv4.
const PACKET_MAX: usize = 65_535;
/// Packets that are read before others have their turn, carried or not.
const READ_AT_ONCE: usize = 64;

type Watched = Rc<AsyncFd<OwnedFd>>;

/// The ends that it has, and what it knows of peers.
#[derive(Default)]
pub(crate) struct Carrier {
    link: Option<(u32, Watched)>,
    socket: Option<(SocketAddrV4, Watched)>,
    table: Rc<RefCell<Table>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Carrier {
    /// The index of the link of which it has the end.
    pub(crate) fn link(&self) -> Option<u32> {
        self.link.as_ref().map(|it| it.0)
    }

    pub(crate) fn local(&self) -> Option<SocketAddrV4> {
        self.socket.as_ref().map(|it| it.0)
    }

    pub(crate) fn table(&self) -> Table {
        self.table.borrow().clone()
    }

    pub(crate) fn set_table(&self, table: Table) {
        *self.table.borrow_mut() = table;
    }

    pub(crate) fn take_link(&mut self, index: u32, end: OwnedFd) -> io::Result<()> {
        let end = watched(end, Interest::READABLE | Interest::WRITABLE)?;
        self.link = Some((index, Rc::new(end)));
        self.start();
        Ok(())
    }

    pub(crate) fn take_socket(&mut self, local: SocketAddrV4, socket: OwnedFd) -> io::Result<()> {
        datagrams::allow_fragments(&socket)?;
        let socket = watched(socket, Interest::READABLE | Interest::WRITABLE)?;
        self.socket = Some((local, Rc::new(socket)));
        self.start();
        Ok(())
    }

    fn start(&mut self) {
        self.tasks.drain(..).for_each(|it| it.abort());
        let (Some((_, link)), Some((local, socket))) = (&self.link, &self.socket) else { return };
        let way = Way {
            link: link.clone(),
            socket: socket.clone(),
            table: self.table.clone(),
            port: local.port(),
        };
        self.tasks.push(tokio::task::spawn_local(outward(way.clone())));
        self.tasks.push(tokio::task::spawn_local(inward(way)));
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[derive(Clone)]
struct Way {
    link: Watched,
    socket: Watched,
    table: Rc<RefCell<Table>>,
    /// Of all nodes.
    port: u16,
}

/// Until the link is gone.
async fn outward(way: Way) {
    let mut batch = Batch::new(PACKET_MAX);
    loop {
        let Ok(mut ready) = way.link.readable().await else { return };
        match way.read(&mut batch) {
            Ok(()) => {}
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            Err(_) => return,
        }
        drop(ready);
        way.send(&mut batch).await;
        tokio::task::yield_now().await;
    }
}

/// Until the worker has another socket.
async fn inward(way: Way) {
    let mut batch = Batch::new(PACKET_MAX);
    loop {
        let Ok(mut ready) = way.socket.readable().await else { return };
        match batch.receive(&way.socket) {
            Ok(()) => way.deliver(&mut batch),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            // What the network said about an earlier datagram.
            Err(_) => {}
        }
        drop(ready);
        tokio::task::yield_now().await;
    }
}

impl Way {
    /// Fills the batch with what is to be sent. `WouldBlock`: there is no more than that.
    fn read(&self, batch: &mut Batch) -> io::Result<()> {
        batch.clear();
        let table = self.table.borrow();
        for _ in 0..READ_AT_ONCE {
            if batch.is_full() {
                break;
            }
            batch.add(|place| {
                let length = rustix::io::read(&*self.link, &mut *place)?;
                let packet = place.get_mut(..length).unwrap_or_default();
                Ok(match table.outward(packet) {
                    Verdict::Pass(peer) => {
                        peer.map(|it| (length, SocketAddrV4::new(it, self.port)))
                    }
                    Verdict::Answer(why) => {
                        self.write(packet::answer(packet, why).as_deref());
                        None
                    }
                    Verdict::Drop => None,
                })
            })?;
        }
        Ok(())
    }

    async fn send(&self, batch: &mut Batch) {
        let mut first = 0;
        while first < batch.len() {
            match batch.send(&self.socket, first) {
                Ok(sent) => first += sent.max(1),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    let Ok(mut ready) = self.socket.writable().await else { return };
                    ready.clear_ready();
                }
                // That one is lost, as it might be on its way; not the others.
                Err(_) => first += 1,
            }
        }
    }

    fn deliver(&self, batch: &mut Batch) {
        let table = self.table.borrow();
        for (packet, sender) in batch.iter_mut() {
            if sender.port() != self.port {
                continue;
            }
            match table.inward(packet, *sender.ip()) {
                Verdict::Pass(_) => self.write(Some(packet)),
                Verdict::Answer(why) => self.write(packet::answer(packet, why).as_deref()),
                Verdict::Drop => {}
            }
        }
    }

    /// What the link does not take now is lost.
    fn write(&self, packet: Option<&[u8]>) {
        if let Some(packet) = packet {
            let _ = rustix::io::write(&*self.link, packet);
        }
    }
}
