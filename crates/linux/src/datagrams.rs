//! Several datagrams of IPv4 with one system call, in either direction (recvmmsg(2), sendmmsg(2)).
//!
//! Promises: a datagram is whole or is not there; one that is longer than its place is passed over.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd as _};

/// As many as one call takes here.
const AT_ONCE: usize = 32;

/// Places for datagrams, each with whom it is from, or for.
#[derive(Debug)]
pub struct Batch {
    places: Vec<Place>,
    /// The first so many are taken.
    n_taken: usize,
}

#[derive(Debug)]
struct Place {
    bytes: Box<[u8]>,
    length: usize,
    peer: SocketAddrV4,
}

impl Batch {
    /// With places for datagrams of this length.
    pub fn new(length: usize) -> Self {
        let peer = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let place = || Place { bytes: vec![0; length].into(), length: 0, peer };
        Self { places: (0..AT_ONCE).map(|_| place()).collect(), n_taken: 0 }
    }

    pub fn clear(&mut self) {
        self.n_taken = 0;
    }

    pub fn is_full(&self) -> bool {
        self.n_taken == self.places.len()
    }

    pub fn len(&self) -> usize {
        self.n_taken
    }

    pub fn is_empty(&self) -> bool {
        self.n_taken == 0
    }

    /// Those that are there, which may be written over in their place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&mut [u8], SocketAddrV4)> {
        let taken = self.places.iter_mut().take(self.n_taken);
        taken.map(|it| (it.bytes.get_mut(..it.length).unwrap_or_default(), it.peer))
    }

    /// One more, if there is a place: `write` puts it there and says how long it is, and who it is
    /// for; `None`: it is not to be sent.
    pub fn add(
        &mut self,
        write: impl FnOnce(&mut [u8]) -> io::Result<Option<(usize, SocketAddrV4)>>,
    ) -> io::Result<()> {
        let Some(place) = self.places.get_mut(self.n_taken) else { return Ok(()) };
        if let Some((length, peer)) = write(&mut place.bytes)? {
            (place.length, place.peer) = (length.min(place.bytes.len()), peer);
            self.n_taken += 1;
        }
        Ok(())
    }

    /// In place of what was there, what has come, as far as there are places. `WouldBlock` if
    /// nothing has.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<()> {
        self.n_taken = 0;
        let mut vectors: Vec<_> = self.places.iter_mut().map(Place::whole).collect();
        let mut names = vec![empty_name(); AT_ONCE];
        let mut headers: Vec<_> =
            vectors.iter_mut().zip(&mut names).map(|(vector, name)| header(vector, name)).collect();
        // SAFETY: each header points to one name and one vector, and that to one place; all live
        // until the call returns, and nobody else has them.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let n_received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let mut lengths = [0; AT_ONCE];
        for ((length, header), name) in lengths.iter_mut().zip(&headers).zip(&names) {
            let is_whole = header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            let is_ipv4 = i32::from(name.sin_family) == libc::AF_INET;
            *length = if is_whole && is_ipv4 { header.msg_len as usize } else { 0 };
        }
        drop(headers);
        for ((place, name), length) in self.places.iter_mut().zip(&names).zip(lengths) {
            (place.length, place.peer) = (length, peer_of(name));
        }
        self.n_taken = n_received.min(self.places.len());
        Ok(())
    }

    /// Each to its peer, from the one with this number on. Says how many the kernel has taken;
    /// `WouldBlock` if it takes none now. An error is that of the first.
    pub fn send(&mut self, socket: impl AsFd, first: usize) -> io::Result<usize> {
        let waiting = self.places.get_mut(first..self.n_taken).unwrap_or_default();
        if waiting.is_empty() {
            return Ok(0);
        }
        let mut names: Vec<_> = waiting.iter().map(|it| name_of(it.peer)).collect();
        let mut vectors: Vec<_> = waiting.iter_mut().map(Place::taken).collect();
        let mut headers: Vec<_> =
            vectors.iter_mut().zip(&mut names).map(|(vector, name)| header(vector, name)).collect();
        // SAFETY: as in `receive`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_fd().as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

impl Place {
    fn whole(&mut self) -> libc::iovec {
        libc::iovec { iov_base: self.bytes.as_mut_ptr().cast(), iov_len: self.bytes.len() }
    }

    fn taken(&mut self) -> libc::iovec {
        libc::iovec { iov_len: self.length, ..self.whole() }
    }
}

fn header(vector: &mut libc::iovec, name: &mut libc::sockaddr_in) -> libc::mmsghdr {
    // SAFETY: of zeros it is a valid one that points nowhere.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
    header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

fn empty_name() -> libc::sockaddr_in {
    name_of(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))
}

fn name_of(peer: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: peer.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(peer.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn peer_of(name: &libc::sockaddr_in) -> SocketAddrV4 {
    let address = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
    SocketAddrV4::new(address, u16::from_be(name.sin_port))
}

/// Datagrams that are longer than the way takes are sent in pieces, whatever is known of the way.
pub fn allow_fragments(socket: impl AsFd) -> io::Result<()> {
    let value = libc::IP_PMTUDISC_DONT;
    // SAFETY: the pointer is to a number of this length that lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::*;

    fn socket() -> (UdpSocket, SocketAddrV4) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else { unreachable!() };
        (socket, address)
    }

    #[test]
    fn many_go_and_come_with_one_call_each_whole_and_with_whom_they_are_from() {
        let ((one, from), (other, to)) = (socket(), socket());
        let mut batch = Batch::new(100);
        for n in 0..40_u8 {
            let length = usize::from(n) + 1;
            let write = |place: &mut [u8]| {
                place[..length].fill(n);
                Ok(Some((length, to)))
            };
            batch.add(write).unwrap();
        }
        assert!(batch.is_full());
        assert_eq!(batch.send(&one, 0).unwrap(), AT_ONCE);
        let mut received = Batch::new(100);
        received.receive(&other).unwrap();
        let expected: Vec<_> = (0..32_u8).map(|n| (vec![n; usize::from(n) + 1], from)).collect();
        let found: Vec<_> = received.iter_mut().map(|(it, from)| (it.to_vec(), from)).collect();
        assert_eq!(found, expected);
        let nothing = received.receive(&other).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(received.is_empty());
    }

    #[test]
    fn what_is_longer_than_its_place_is_not_there_at_all() {
        let ((one, _), (other, to)) = (socket(), socket());
        one.send_to(&[1; 20], to).unwrap();
        one.send_to(&[2; 10], to).unwrap();
        let mut received = Batch::new(10);
        received.receive(&other).unwrap();
        let found: Vec<_> = received.iter_mut().map(|(it, _)| it.to_vec()).collect();
        assert_eq!(found, [vec![], vec![2; 10]]);
    }
}
