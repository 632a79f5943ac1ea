//! What the worker carries, and what becomes of a request.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::portals::{Portals, Shared};
use crate::protocol::{Place, Reply, Request, VERSION, WAYS_AT_ONCE};
use crate::tunnel::{Carrier, Table};

pub(super) struct State {
    tunnel: Option<Carrier>,
    /// Of which not all was told yet.
    coming: Table,
    portals: Portals,
    shared: Rc<Shared>,
}

impl State {
    pub(super) fn new(shared: Rc<Shared>) -> Self {
        let portals = Portals::new(shared.clone());
        Self { tunnel: None, coming: Table::default(), portals, shared }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tunnel.is_none() && self.portals.is_empty() && self.shared.is_idle()
    }

    pub(super) fn answer(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Reply {
        let outcome = match request {
            Request::Hello { version } => validate_version(version),
            Request::Tunnel { from } => return self.tell_tunnel(from),
            Request::TakeLink { index } => {
                self.with_descriptor(descriptors, |it, end| it.take_link(index, end))
            }
            Request::TakeSocket { local } => {
                self.with_descriptor(descriptors, |it, end| it.take_socket(local, end))
            }
            Request::Ways { own, ways, place } => {
                if place.is_first {
                    self.coming = Table::of(own);
                }
                let n_left_out =
                    ways.into_iter().filter(|(range, peer)| !self.coming.add(*range, *peer));
                match n_left_out.count() {
                    0 => self.end_ways(place),
                    n => Err(format!("{n} ranges of pods are too many")),
                }
            }
            Request::DropTunnel => {
                self.tunnel = None;
                Ok(())
            }
            Request::BeginPortals => {
                self.portals.begin();
                Ok(())
            }
            Request::OpenPortal(portal) => {
                return self.portals.open(&portal).map_or_else(Reply::Refused, Reply::Port);
            }
            Request::EndPortals => {
                self.portals.end();
                Ok(())
            }
            Request::ClosePortal(id) => {
                self.portals.close(&id);
                Ok(())
            }
            Request::Listen(_) => Err("already served".to_owned()),
        };
        outcome.map_or_else(Reply::Refused, |()| Reply::Done)
    }

    fn with_descriptor(
        &mut self,
        descriptors: Vec<OwnedFd>,
        take: impl FnOnce(&mut Carrier, OwnedFd) -> std::io::Result<()>,
    ) -> Result<(), String> {
        let Some(descriptor) = descriptors.into_iter().next() else {
            return Err("a descriptor is missing".to_owned());
        };
        let carrier = self.tunnel.get_or_insert_default();
        take(carrier, descriptor).map_err(|err| format!("take a descriptor: {err}"))
    }

    fn end_ways(&mut self, place: Place) -> Result<(), String> {
        if place.is_last {
            let table = std::mem::take(&mut self.coming);
            self.tunnel.get_or_insert_default().set_table(table);
        }
        Ok(())
    }

    fn tell_tunnel(&self, from: usize) -> Reply {
        let Some(carrier) = &self.tunnel else {
            let (link, local, own, ways) = (None, None, None, Vec::new());
            return Reply::Tunnel { link, local, own, ways, is_last: true };
        };
        let table = carrier.table();
        let ways: Vec<_> = table.ways().skip(from).take(WAYS_AT_ONCE).collect();
        let is_last = table.ways().count() <= from.saturating_add(ways.len());
        let (link, local, own) = (carrier.link(), carrier.local(), table.own);
        Reply::Tunnel { link, local, own, ways, is_last }
    }
}

fn validate_version(version: u32) -> Result<(), String> {
    match version {
        VERSION => Ok(()),
        other => Err(format!("this worker speaks version {VERSION}, not {other}")),
    }
}
