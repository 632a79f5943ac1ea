//! Passwords of TCP connections (RFC 2385): segments without the right sum are dropped by the kernel,
//! as if they had not come. Routers know it from BGP.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _};

const SOL_TCP: c_int = 6;
const TCP_MD5SIG: c_int = 14;
/// More the kernel does not take.
pub const PASSWORD_MAX: usize = 80;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

unsafe extern "C" {
    fn setsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: c_uint,
    ) -> c_int;
}

/// `struct tcp_md5sig` of linux/tcp.h; the address is a `struct sockaddr_storage`.
#[repr(C)]
struct Signature {
    family: u16,
    address: [u8; 126],
    flags: u8,
    prefix_length: u8,
    key_length: u16,
    interface: c_int,
    key: [u8; PASSWORD_MAX],
}

/// Of connections with this peer from now on, on a socket that listens or is not connected yet. No
/// password: as if there had never been one.
pub fn set_password(socket: impl AsFd, peer: IpAddr, password: &[u8]) -> io::Result<()> {
    let mut signature = Signature {
        family: AF_INET,
        address: [0; 126],
        flags: 0,
        prefix_length: 0,
        key_length: u16::try_from(password.len()).unwrap_or(u16::MAX),
        interface: 0,
        key: [0; PASSWORD_MAX],
    };
    let Some(key) = signature.key.get_mut(..password.len()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    key.copy_from_slice(password);
    // Behind the port; of IPv6 behind the label of the flow as well.
    match peer {
        IpAddr::V4(it) => signature.address[2..6].copy_from_slice(&it.octets()),
        IpAddr::V6(it) => {
            signature.family = AF_INET6;
            signature.address[6..22].copy_from_slice(&it.octets());
        }
    }
    // SAFETY: the pointer is to a value of this length that lives through the call, whose layout is
    // the kernel's; the descriptor is open.
    let result = unsafe {
        setsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_TCP,
            TCP_MD5SIG,
            (&raw const signature).cast(),
            size_of::<Signature>() as c_uint,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::net::{AddressFamily, SocketType, connect, socket};

    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<Signature>(), 128 + 8 + 80);
        assert_eq!(std::mem::offset_of!(Signature, flags), 128);
        assert_eq!(std::mem::offset_of!(Signature, key), 136);
    }

    fn check(address: &str, family: AddressFamily) {
        let peer: IpAddr = address.parse().unwrap();
        let listener = TcpListener::bind((peer, 0)).unwrap();
        if let Err(err) = set_password(&listener, peer, b"secret") {
            println!("SKIPPED: this kernel has no passwords of TCP: {err}");
            return;
        }
        let dialing = socket(family, SocketType::STREAM, None).unwrap();
        set_password(&dialing, peer, b"secret").unwrap();
        connect(&dialing, &listener.local_addr().unwrap()).unwrap();
        let stream = TcpStream::from(dialing);
        assert_eq!(listener.accept().unwrap().1, stream.local_addr().unwrap());
    }

    #[test]
    fn who_knows_the_password_gets_through() {
        check("127.0.0.1", AddressFamily::INET);
        check("::1", AddressFamily::INET6);
    }

    #[test]
    fn a_password_is_not_longer_than_the_kernel_takes() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let refused = set_password(&listener, "127.0.0.1".parse().unwrap(), &[b'x'; 81]);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
