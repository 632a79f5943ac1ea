//! Flows of datagrams: each client has a socket of its own to its endpoint, until both are silent.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use rustix::net::{SendFlags, send, sendto};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

use super::balancer::Balancer;
use super::limits::{Counted, Shared};

/// Of a flow that is to be forgotten.
const IDLE: Duration = Duration::from_millis(250);
/// Datagrams before others have their turn.
const AT_ONCE: usize = 64;

/// By client.
type Flows = Rc<RefCell<HashMap<SocketAddr, Rc<Flow>>>>;

struct Flow {
    socket: UdpSocket,
    endpoint: SocketAddr,
    last: Cell<Instant>,
    _counted: Counted,
}

pub(super) struct Server {
    socket: Rc<UdpSocket>,
    balancer: Rc<RefCell<Balancer>>,
    shared: Rc<Shared>,
    flows: Flows,
}

impl Server {
    pub(super) fn new(
        socket: UdpSocket,
        balancer: Rc<RefCell<Balancer>>,
        shared: Rc<Shared>,
    ) -> Self {
        Self { socket: Rc::new(socket), balancer, shared, flows: Flows::default() }
    }

    pub(super) async fn serve(self) {
        loop {
            if self.socket.readable().await.is_err() {
                return;
            }
            for _ in 0..AT_ONCE {
                let mut buffer = self.shared.datagram.borrow_mut();
                match self.socket.try_recv_from(&mut buffer) {
                    Ok((length, client)) => {
                        self.pass_on(buffer.get(..length).unwrap_or_default(), client);
                    }
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock => break,
                    // What the network said about an earlier answer.
                    Err(_) => {}
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// What cannot be sent at once is lost, as it might be on its way.
    fn pass_on(&self, datagram: &[u8], client: SocketAddr) {
        let known = self.flows.borrow().get(&client).cloned();
        let known = known.filter(|it| self.balancer.borrow().serves(it.endpoint));
        let Some(flow) = known.or_else(|| self.begin(client)) else { return };
        flow.last.set(Instant::now());
        let _ = send(&flow.socket, datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// `None`: there is no endpoint, or no room.
    fn begin(&self, client: SocketAddr) -> Option<Rc<Flow>> {
        self.flows.borrow_mut().remove(&client);
        let now = Instant::now();
        let endpoint = self.balancer.borrow_mut().choose(client.ip(), now)?;
        let counted = self.shared.flow()?;
        let socket = match connect(endpoint) {
            Ok(socket) => socket,
            Err(err) => {
                let words = format!("a datagram to {endpoint} could not be sent: {err}");
                self.shared.complain("flow", &words);
                return None;
            }
        };
        let flow = Rc::new(Flow { socket, endpoint, last: Cell::new(now), _counted: counted });
        self.flows.borrow_mut().insert(client, flow.clone());
        let (answers, flows, socket) = (flow.clone(), self.flows.clone(), self.socket.clone());
        let shared = self.shared.clone();
        tokio::task::spawn_local(async move {
            answer(&answers, client, &socket, &shared).await;
            let mut flows = flows.borrow_mut();
            if flows.get(&client).is_some_and(|it| Rc::ptr_eq(it, &answers)) {
                flows.remove(&client);
            }
        });
        Some(flow)
    }
}

fn connect(endpoint: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match endpoint {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect(endpoint)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// Passes back what the endpoint says, until both have been silent, or nobody is there.
async fn answer(flow: &Flow, client: SocketAddr, to: &UdpSocket, shared: &Shared) {
    loop {
        let readable = tokio::select! {
            biased;
            readable = flow.socket.readable() => readable,
            () = sleep_until(flow.last.get() + IDLE) => {
                // More may have come meanwhile.
                if Instant::now() < flow.last.get() + IDLE { continue } else { return }
            }
        };
        if readable.is_err() {
            return;
        }
        match pass_back(flow, client, to, &mut shared.datagram.borrow_mut()) {
            Ok(()) => {}
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            // Refused: nobody is at the endpoint's port.
            Err(_) => return,
        }
        tokio::task::yield_now().await;
    }
}

fn pass_back(flow: &Flow, client: SocketAddr, to: &UdpSocket, buffer: &mut [u8]) -> io::Result<()> {
    let length = flow.socket.try_recv(buffer)?;
    flow.last.set(Instant::now());
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = sendto(to, buffer.get(..length).unwrap_or_default(), flags, &client);
    Ok(())
}
