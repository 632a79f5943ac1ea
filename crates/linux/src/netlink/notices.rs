//! What the kernel tells unasked: links, addresses, neighbors, routes, settings and rules that
//! somebody changed.
//!
//! A notice says where to look, not what is there by now: read the state. When more happen than the
//! queue holds, that is told once ([`Notice::Missed`]).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::io::Errno;

use super::message::{Received, split};
use super::nftables::NEW_GENERATION;
use super::route::{Link, Route, addresses, links, neighbors, routes};
use super::{Attribute, Error, Family, Reply, Socket};

/// `RTNLGRP_LINK`, `RTNLGRP_NEIGH`; `RTNLGRP_IPV4_IFADDR`, `RTNLGRP_IPV4_ROUTE`, `RTNLGRP_IPV4_NETCONF`; the same of
/// IPv6.
const ROUTE_GROUPS: [u32; 8] = [1, 3, 5, 7, 24, 9, 11, 25];
/// `NFNLGRP_NFTABLES`.
const TABLE_GROUPS: [u32; 1] = [7];

/// Of `linux/rtnetlink.h`, for both values of a setting.
const RTM_NEWNETCONF: u16 = 80;
/// Length of `struct nfgenmsg`.
const TABLE_FIXED: usize = 4;
/// The same number for tables, chains, rules, sets and elements.
const TABLE_NAME: u16 = 1;
const SUBSYSTEM_NFTABLES: u16 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It came, changed or went.
    Link(Link),
    /// Addresses of this link changed.
    Address {
        link: u32,
    },
    /// What a link knows of its neighbors, or of where hardware addresses are, changed.
    Neighbor {
        link: u32,
    },
    Route(Route),
    /// A setting of some link, or of all.
    Setting,
    /// Something in the table of this name changed, by whoever has the socket with this port.
    Table {
        name: String,
        port: u32,
    },
    /// There were more than the queue holds.
    Missed,
}

/// A socket that is told of changes in the network namespace in which it was opened. Readable when
/// there are any.
#[derive(Debug)]
pub struct Notices {
    socket: Socket,
}

impl Notices {
    /// Of links, addresses, neighbors, routes and settings, of both families.
    pub fn of_links() -> Result<Self, Error> {
        Self::open(Family::Route, &ROUTE_GROUPS)
    }

    /// Of nftables.
    pub fn of_tables() -> Result<Self, Error> {
        Self::open(Family::Netfilter, &TABLE_GROUPS)
    }

    fn open(family: Family, groups: &[u32]) -> Result<Self, Error> {
        let socket = Socket::open(family)?;
        groups.iter().try_for_each(|it| socket.subscribe(*it))?;
        Ok(Self { socket })
    }

    /// Some of those that have come; `None` when there are no more. Never waits.
    pub fn receive(&mut self) -> Result<Option<Vec<Notice>>, Error> {
        match self.socket.receive_now() {
            Ok(bytes) => Ok(Some(split(bytes).filter_map(read).collect())),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::NOBUFS) => Ok(Some(vec![Notice::Missed])),
            Err(errno) => Err(Error::new("read the kernel's notices", errno)),
        }
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Notices {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// `None`: nothing that anybody asked for.
fn read(received: Received<'_>) -> Option<Notice> {
    let reply = Reply { kind: received.kind, payload: received.payload.to_vec() };
    match received.kind {
        links::RTM_NEWLINK | links::RTM_DELLINK => links::read(&reply).map(Notice::Link),
        addresses::RTM_NEWADDR | addresses::RTM_DELADDR => {
            addresses::read(&reply).map(|it| Notice::Address { link: it.link })
        }
        neighbors::RTM_NEWNEIGH | neighbors::RTM_DELNEIGH => {
            neighbors::read_link(&reply).map(|link| Notice::Neighbor { link })
        }
        routes::RTM_NEWROUTE | routes::RTM_DELROUTE => routes::read(&reply).map(Notice::Route),
        RTM_NEWNETCONF => Some(Notice::Setting),
        NEW_GENERATION => None,
        kind if kind >> 8 == SUBSYSTEM_NFTABLES => {
            let attributes = reply.attributes(TABLE_FIXED);
            let name = attributes.find_kind(TABLE_NAME).and_then(Attribute::string)?.to_owned();
            Some(Notice::Table { name, port: received.port })
        }
        _ => None,
    }
}

pub(super) fn read_any(received: Received<'_>) {
    let _ = read(received);
}
