//! Ports for tests that must name one before a program listens on it, or that stop the program and
//! start it again there. For tests alone.
//!
//! Who asks the kernel for any port and closes it has it no more: before the program listens, another
//! test may have got the same. A port from here is given once on this machine as long as this process
//! lives, and it is not among those that the kernel gives to whoever asks for any.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below the ports that the kernel gives (from 32768 on) and those of Services (from 30000 on).
const PORTS: std::ops::Range<u16> = 15_000..30_000;

/// What says to others that a port is taken: sockets with names that no file has. They go with the
/// process.
static TAKEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// # Panics
///
/// If all are taken.
pub fn reserve() -> u16 {
    let mut taken = TAKEN.lock().expect("nothing panics while it is held");
    // Processes begin at places of their own, so that few meet.
    let n_ports = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(101) % n_ports;
    for step in 0..n_ports {
        let offset = u16::try_from((first + step) % n_ports).expect("there are fewer ports");
        let port = PORTS.start + offset;
        let Some(mark) = mark(port) else { continue };
        // Somebody else's server may be there; what it has is not tried again.
        let is_free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
        taken.push(mark);
        if is_free {
            return port;
        }
    }
    panic!("all ports of tests are taken");
}

/// `None`: another test has it.
fn mark(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("xebec-test-port-{port}"));
    UnixListener::bind_addr(&name.expect("the name is short")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_and_is_free() {
        let (first, second) = (reserve(), reserve());
        assert_ne!(first, second);
        assert!(mark(first).is_none() && mark(second).is_none());
        for port in [first, second] {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
