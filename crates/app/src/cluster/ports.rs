//! Who listens on a port: tried by listening oneself, then looked up. Nothing stays open.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// `None`: it is free. An address need not be there yet.
pub(super) fn holder(address: SocketAddr, transport: Transport) -> Option<String> {
    match try_listen(address, transport) {
        Ok(()) => None,
        Err(err) if err.kind() == io::ErrorKind::AddrInUse => {
            Some(process(address, transport).unwrap_or_else(|| "another process".to_owned()))
        }
        Err(err) => Some(format!("the system ({err})")),
    }
}

fn try_listen(address: SocketAddr, transport: Transport) -> io::Result<()> {
    let (family, kind) = match (address.ip(), transport) {
        (IpAddr::V4(_), Transport::Tcp) => (AddressFamily::INET, SocketType::STREAM),
        (IpAddr::V4(_), Transport::Udp) => (AddressFamily::INET, SocketType::DGRAM),
        (IpAddr::V6(_), Transport::Tcp) => (AddressFamily::INET6, SocketType::STREAM),
        (IpAddr::V6(_), Transport::Udp) => (AddressFamily::INET6, SocketType::DGRAM),
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    match address.ip() {
        IpAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        IpAddr::V6(_) => sockopt::set_ipv6_freebind(&socket, true)?,
    }
    if transport == Transport::Tcp {
        // As servers do: connections that have ended do not count.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &address)?;
    if transport == Transport::Tcp {
        listen(&socket, 1)?;
    }
    Ok(())
}

/// `process 42 (nginx)`, if it can be seen.
fn process(address: SocketAddr, transport: Transport) -> Option<String> {
    let tables: &[&str] = match transport {
        Transport::Tcp => &["/proc/net/tcp", "/proc/net/tcp6"],
        Transport::Udp => &["/proc/net/udp", "/proc/net/udp6"],
    };
    let inodes: Vec<String> = tables
        .iter()
        .flat_map(|it| {
            let table = fs::read_to_string(it).unwrap_or_default();
            listeners(&table, address.port(), transport)
        })
        .map(|it| format!("socket:[{it}]"))
        .collect();
    let pids = fs::read_dir("/proc").ok()?.flatten().filter(|it| {
        it.file_name().to_str().is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()))
    });
    let mut paths = pids.map(|it| it.path());
    let found = paths.find(|it| has_socket(it, &inodes))?;
    let name = fs::read_to_string(found.join("comm")).unwrap_or_default();
    Some(format!("process {} ({})", found.file_name()?.to_str()?, name.trim()))
}

/// The inodes of sockets of such a table of the kernel that wait on the port.
fn listeners(table: &str, port: u16, transport: Transport) -> Vec<String> {
    let state = match transport {
        Transport::Tcp => "0A",
        Transport::Udp => "07",
    };
    let ending = format!(":{port:04X}");
    let read = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_one = fields.get(1)?.ends_with(&ending) && *fields.get(3)? == state;
        is_one.then(|| fields.get(9).map(|it| (*it).to_owned())).flatten()
    };
    table.lines().skip(1).filter_map(read).collect()
}

fn has_socket(process: &Path, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|it| {
        fs::read_link(it.path())
            .is_ok_and(|it| it.to_str().is_some_and(|it| sockets.iter().any(|s| s == it)))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::{Transport, holder, listeners};

    #[test]
    fn who_listens_is_named_and_what_is_free_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let expected = format!("process {} (", std::process::id());
        assert!(holder(address, Transport::Tcp).unwrap().starts_with(&expected));
        drop(listener);
        assert_eq!(holder(address, Transport::Tcp), None);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        assert!(holder(address, Transport::Udp).unwrap().starts_with(&expected));
        // Nobody's address, but it could be somebody's: whoever listens everywhere would be in the
        // way.
        assert_eq!(holder("198.51.100.7:10250".parse().unwrap(), Transport::Tcp), None);
    }

    #[test]
    fn only_those_who_wait_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1\n   \
            1: 0100007F:192B 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 78 1\n";
        assert_eq!(listeners(table, 6443, Transport::Tcp), ["77"]);
        assert!(listeners(table, 6444, Transport::Tcp).is_empty());
    }
}
