//! The portals that are open. Connections through one that is closed go on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

use super::balancer::Balancer;
use super::limits::Shared;
use super::{ENDPOINTS_MAX, Portal, Protocol, tcp, udp};

/// Each is an open file.
const PORTALS_MAX: usize = 8192;
const ID_MAX: usize = 600;

pub(crate) struct Portals {
    open: BTreeMap<String, Open>,
    shared: Rc<Shared>,
}

struct Open {
    address: IpAddr,
    protocol: Protocol,
    port: u16,
    balancer: Rc<RefCell<Balancer>>,
    serving: JoinHandle<()>,
    /// Since its node began to say all.
    is_named: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Portals {
    pub(crate) fn new(shared: Rc<Shared>) -> Self {
        Self { open: BTreeMap::new(), shared }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn begin(&mut self) {
        self.open.values_mut().for_each(|it| it.is_named = false);
    }

    /// Closes those that were not opened since it began.
    pub(crate) fn end(&mut self) {
        self.open.retain(|_, it| it.is_named);
    }

    pub(crate) fn close(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// Or changes the one that is open. Says at which port it is.
    pub(crate) fn open(&mut self, portal: &Portal) -> Result<u16, String> {
        validate(portal)?;
        let is_it = |it: &&mut Open| (it.address, it.protocol) == (portal.address, portal.protocol);
        if let Some(open) = self.open.get_mut(&portal.id).filter(is_it) {
            open.balancer.borrow_mut().set(portal);
            open.is_named = true;
            return Ok(open.port);
        }
        if self.open.len() >= PORTALS_MAX && !self.open.contains_key(&portal.id) {
            return Err(format!(
                "at most {PORTALS_MAX} ports of Services are served in user space"
            ));
        }
        let open = self.bind(portal).map_err(|err| format!("listen on {}: {err}", portal.address));
        let open = open?;
        let port = open.port;
        self.open.insert(portal.id.clone(), open);
        Ok(port)
    }

    fn bind(&self, portal: &Portal) -> io::Result<Open> {
        let balancer = Rc::new(RefCell::new(Balancer::default()));
        balancer.borrow_mut().set(portal);
        let (address, protocol) = (portal.address, portal.protocol);
        let shared = self.shared.clone();
        let (port, serving) = match protocol {
            Protocol::Tcp => {
                let listener = std::net::TcpListener::bind((address, 0))?;
                listener.set_nonblocking(true)?;
                let port = listener.local_addr()?.port();
                let listener = TcpListener::from_std(listener)?;
                let serve = tcp::serve(listener, balancer.clone(), shared);
                (port, tokio::task::spawn_local(serve))
            }
            Protocol::Udp => {
                let socket = std::net::UdpSocket::bind((address, 0))?;
                socket.set_nonblocking(true)?;
                let port = socket.local_addr()?.port();
                let socket = UdpSocket::from_std(socket)?;
                let server = udp::Server::new(socket, balancer.clone(), shared);
                (port, tokio::task::spawn_local(server.serve()))
            }
        };
        Ok(Open { address, protocol, port, balancer, serving, is_named: true })
    }
}

fn validate(portal: &Portal) -> Result<(), String> {
    let n_endpoints = portal.endpoints.len().max(portal.serving.len());
    if n_endpoints > ENDPOINTS_MAX {
        return Err(format!("{n_endpoints} endpoints: at most {ENDPOINTS_MAX} are served"));
    }
    if portal.id.len() > ID_MAX {
        return Err(format!("a name of {} bytes: at most {ID_MAX}", portal.id.len()));
    }
    Ok(())
}
