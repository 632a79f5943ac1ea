//! Asking another machine's kernel whether it is there, with packets of any length that nobody may
//! take to pieces (ICMP echo). It answers by itself: nobody has to listen.
//!
//! Promises: nothing is believed that is no answer to the question; what is known of how long packets
//! may be on the way there does not matter, only how long the link takes them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, ipproto,
    recv, send, socket_with,
};

/// Of ICMP, and of ICMPv6.
const REQUEST: [u8; 2] = [8, 128];
const REPLY: [u8; 2] = [0, 129];
/// Length of the header of an echo.
const HEADER: usize = 8;
const HEADER_IPV4: usize = 20;
const HEADER_IPV6: usize = 40;
const LENGTH_MAX: usize = 65_535;

/// `SOL_RAW` and `ICMP_FILTER`; `ICMP6_FILTER` of `SOL_ICMPV6`.
const SOL_RAW: libc::c_int = 255;
const ICMP_FILTER: libc::c_int = 1;
const SOL_ICMPV6: libc::c_int = 58;
const ICMP6_FILTER: libc::c_int = 1;

/// Questions to one machine.
#[derive(Debug)]
pub struct Echo {
    socket: OwnedFd,
    is_ipv6: bool,
    /// By which answers are told from those to others.
    identifier: u16,
}

impl Echo {
    /// In the network namespace of the calling thread. Needs CAP_NET_RAW. Never waits.
    pub fn open(from: IpAddr, to: IpAddr, identifier: u16) -> io::Result<Self> {
        let is_ipv6 = to.is_ipv6();
        let (family, protocol) = match is_ipv6 {
            false => (AddressFamily::INET, ipproto::ICMP),
            true => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let protocol: Option<Protocol> = Some(protocol);
        let socket = socket_with(family, SocketType::RAW, flags, protocol)?;
        hear_replies_alone(&socket, is_ipv6)?;
        forbid_fragments(&socket, is_ipv6)?;
        bind(&socket, &SocketAddr::new(from, 0))?;
        connect(&socket, &SocketAddr::new(to, 0))?;
        Ok(Self { socket, is_ipv6, identifier })
    }

    /// In a packet of this length, IP's header included. `EMSGSIZE`: not even the link takes it.
    pub fn ask(&self, sequence: u16, length: usize) -> io::Result<()> {
        let header = if self.is_ipv6 { HEADER_IPV6 } else { HEADER_IPV4 };
        let length = length.min(LENGTH_MAX).saturating_sub(header).max(HEADER);
        let mut packet = vec![0; length];
        packet[0] = REQUEST[usize::from(self.is_ipv6)];
        packet[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        packet[6..8].copy_from_slice(&sequence.to_be_bytes());
        if !self.is_ipv6 {
            // That of ICMPv6 is the kernel's business: it knows the source.
            let sum = checksum(&packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        send(&self.socket, &packet, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// To which question an answer has come; `None`: to none yet.
    pub fn answered(&self) -> io::Result<Option<u16>> {
        // An answer is as long as its question, of which the start is enough.
        let mut buffer = [0; 128];
        loop {
            let length = match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => length.min(buffer.len()),
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
            if let Some(sequence) = self.read(&buffer[..length]) {
                return Ok(Some(sequence));
            }
        }
    }

    fn read(&self, packet: &[u8]) -> Option<u16> {
        let echo = match self.is_ipv6 {
            true => packet,
            // Raw sockets of IPv4 show its header.
            false => packet.get(usize::from(packet.first()? & 0x0f) * 4..)?,
        };
        let number = |at: usize| Some(u16::from_be_bytes(*echo.get(at..)?.first_chunk()?));
        let is_ours =
            *echo.first()? == REPLY[usize::from(self.is_ipv6)] && number(4)? == self.identifier;
        if is_ours { number(6) } else { None }
    }
}

impl AsFd for Echo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Echo {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The one's complement of the one's complement sum of 16-bit words (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |it: &[u8]| u32::from(it[0]) << 8 | u32::from(it.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// All else of ICMP that comes to this machine is for others.
fn hear_replies_alone(socket: &OwnedFd, is_ipv6: bool) -> io::Result<()> {
    if !is_ipv6 {
        // A bit for each type that is not heard; there are 32.
        return set(socket, SOL_RAW, ICMP_FILTER, &!(1_u32 << REPLY[0]));
    }
    let mut blocked = [u32::MAX; 8];
    let kind = usize::from(REPLY[1]);
    blocked[kind / 32] &= !(1 << (kind % 32));
    set(socket, SOL_ICMPV6, ICMP6_FILTER, &blocked)
}

fn forbid_fragments(socket: &OwnedFd, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        false => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?,
        true => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?,
    }
    Ok(())
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to a value of this length, without padding, that lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::route::{LinkChange, RouteSocket};
    use crate::network_namespace::NetworkNamespace;
    use rustix::event::{PollFd, PollFlags, poll};

    /// RFC 1071 3, and an odd number of bytes.
    #[test]
    fn checksums_are_as_the_rfc_has_them() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xff]), !0xff00);
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn a_kernel_answers_at_any_length_that_its_link_takes() {
        let namespace = match NetworkNamespace::create() {
            Ok(namespace) => namespace,
            Err(err) => return println!("SKIPPED: {err}: {}", err.source),
        };
        let run = || {
            let mut routes = RouteSocket::open().unwrap();
            let loopback = routes.link("lo").unwrap().unwrap();
            let up = LinkChange { is_up: Some(true), mtu: Some(1500), ..LinkChange::default() };
            routes.change_link(&loopback, up).unwrap();
            for address in ["127.0.0.1", "::1"].map(|it| it.parse().unwrap()) {
                let other = Echo::open(address, address, 8).unwrap();
                let echo = Echo::open(address, address, 7).unwrap();
                for (sequence, length) in [(1, 0), (2, 100), (3, 1500)] {
                    echo.ask(sequence, length).unwrap();
                    let waiting = PollFd::new(&echo, PollFlags::IN);
                    poll(&mut [waiting], None).unwrap();
                    assert_eq!(echo.answered().unwrap(), Some(sequence), "{address} {length}");
                    assert_eq!(echo.answered().unwrap(), None);
                }
                let refused = echo.ask(4, 1501).unwrap_err();
                assert_eq!(refused.raw_os_error(), Some(Errno::MSGSIZE.raw_os_error()));
                assert_eq!(other.answered().unwrap(), None);
            }
        };
        namespace.run(run).unwrap();
    }
}
