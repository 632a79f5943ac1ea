//! The owner of all sessions: waits for one event, lets the neighbor it concerns step, does what
//! comes of it, and tells what is heard.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use bgp::{Action, ConnectionId, Input, Moment, Peer};
use lifecycle::Tasks;
use linux::network_namespace;
use stdx::{Family, error_chain};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::line::{self, Event};
use super::wanted::identifier;
use super::{Bgp, Heard, PORT, RESTART_TIME, Wanted, choice};

/// Silence that is longer ends a session, as Calico has it.
const HOLD_TIME: Duration = Duration::from_secs(90);
/// A peer with more has its session ended: as many as there may be nodes, of both families.
const ROUTES_MAX: usize = 20_000;
/// Messages that a peer has not taken yet: who has more has stopped reading.
const UNSENT_MAX: usize = 1024;
const EVENTS: usize = 256;
/// A port that somebody else has may be free later.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// Where a speaker stands.
pub(crate) struct Place {
    pub(crate) bgp: Bgp,
    /// A file that names the network namespace.
    pub(crate) namespace: PathBuf,
    /// The Node's name.
    pub(crate) node: String,
    /// This node's addresses, of each family one at the most.
    pub(crate) local: Vec<IpAddr>,
    pub(crate) families: Vec<Family>,
    /// The kernel has routes that we heard before.
    pub(crate) has_restarted: bool,
}

pub(crate) fn spawn(
    tasks: &Tasks,
    place: Place,
    wanted: watch::Receiver<Option<Wanted>>,
) -> watch::Receiver<Heard> {
    let (told, heard) = watch::channel(Heard::default());
    let lines = tasks.child("bgp-lines");
    tasks.spawn("bgp", |shutdown| async move {
        let (events_tx, events) = mpsc::channel(EVENTS);
        let speaker = Speaker {
            place,
            lines,
            started: Instant::now(),
            neighbors: BTreeMap::new(),
            of_lines: BTreeMap::new(),
            next_id: 0,
            events: events_tx,
            told,
        };
        let mut running =
            Running { speaker, events, wanted, listeners: Vec::new(), listen_at: None };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = running.run() => {}
        }
    });
    heard
}

struct Running {
    speaker: Speaker,
    events: mpsc::Receiver<Event>,
    wanted: watch::Receiver<Option<Wanted>>,
    listeners: Vec<tokio::net::TcpListener>,
    listen_at: Option<Instant>,
}

struct Speaker {
    place: Place,
    lines: Tasks,
    started: Instant,
    neighbors: BTreeMap<IpAddr, Neighbor>,
    /// Whose each is, and what sends on it.
    of_lines: BTreeMap<ConnectionId, (IpAddr, mpsc::Sender<Vec<u8>>)>,
    next_id: u64,
    events: mpsc::Sender<Event>,
    told: watch::Sender<Heard>,
}

struct Neighbor {
    number: u32,
    peer: Peer,
    has_said_all: bool,
    down: Option<String>,
}

impl Running {
    /// Ends when nobody says any more what is wanted.
    async fn run(&mut self) {
        self.listen();
        let complete_at = self.speaker.started + RESTART_TIME;
        loop {
            let due = self.speaker.due();
            let is_waiting = !self.speaker.is_complete();
            tokio::select! {
                biased;
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let wanted = self.wanted.borrow_and_update().clone().unwrap_or_default();
                    if self.speaker.place.local != wanted.local {
                        self.listeners.clear();
                        self.speaker.move_to(&wanted.local);
                    }
                    self.speaker.want(&wanted);
                    self.listen();
                }
                Some(event) = self.events.recv() => self.speaker.take(event),
                accepted = accept(&self.listeners) => self.speaker.accept(accepted),
                () = until(due) => self.speaker.come_due(),
                () = until(self.listen_at) => self.listen(),
                () = tokio::time::sleep_until(complete_at), if is_waiting => {}
            }
            self.speaker.tell();
        }
    }

    /// On this node's addresses, with a password for each neighbor: those that are not known cannot
    /// even begin.
    fn listen(&mut self) {
        if self.listeners.is_empty() {
            self.listen_at = None;
            match self.speaker.listen() {
                Ok(listeners) => self.listeners = listeners,
                Err(err) => {
                    self.listen_at = Some(Instant::now() + LISTEN_AGAIN);
                    let error = error_chain(&err);
                    tracing::warn!(
                        error,
                        "cannot listen for BGP on port {PORT}: neighbors have to be called"
                    );
                }
            }
        }
        if let Err(err) = self.speaker.set_passwords(&self.listeners) {
            let error = error_chain(&err);
            tracing::error!(error, "the kernel takes no passwords for BGP: nobody is let in");
            self.listeners.clear();
        }
    }
}

async fn accept(
    listeners: &[tokio::net::TcpListener],
) -> io::Result<(tokio::net::TcpStream, SocketAddr)> {
    if listeners.is_empty() {
        return std::future::pending().await;
    }
    let all = listeners.iter().map(|it| Box::pin(it.accept()));
    futures_util::future::select_all(all).await.0
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Speaker {
    fn now(&self) -> Moment {
        self.started.elapsed()
    }

    fn due(&self) -> Option<Instant> {
        let dues = self.neighbors.values().filter_map(|it| it.peer.due());
        dues.min().map(|it| self.started + it)
    }

    fn is_complete(&self) -> bool {
        let all_said = || self.neighbors.values().all(|it| it.has_said_all);
        self.started.elapsed() >= RESTART_TIME || (!self.neighbors.is_empty() && all_said())
    }

    fn listen(&self) -> io::Result<Vec<tokio::net::TcpListener>> {
        let open = || -> io::Result<Vec<TcpListener>> {
            self.place.local.iter().map(|it| line::listen(*it)).collect()
        };
        let opened = network_namespace::run_in(&self.place.namespace, open);
        let opened = opened.map_err(|err| err.source)??;
        opened.into_iter().map(tokio::net::TcpListener::from_std).collect()
    }

    fn set_passwords(&self, listeners: &[tokio::net::TcpListener]) -> io::Result<()> {
        let Some(password) = &self.place.bgp.password else { return Ok(()) };
        for listener in listeners {
            let is_ipv4 = listener.local_addr()?.is_ipv4();
            for neighbor in self.neighbors.keys().filter(|it| it.is_ipv4() == is_ipv4) {
                linux::tcp_md5::set_password(listener, *neighbor, password.as_bytes())?;
            }
        }
        Ok(())
    }

    fn local(&self, family: Family) -> Option<IpAddr> {
        self.place.local.iter().copied().find(|it| Family::of(*it) == family)
    }

    /// Sessions that are held with another address end, and begin anew.
    fn move_to(&mut self, local: &[IpAddr]) {
        for address in self.neighbors.keys().copied().collect::<Vec<_>>() {
            self.leave(address);
        }
        self.place.local = local.to_owned();
    }

    fn leave(&mut self, address: IpAddr) {
        let now = self.now();
        let farewell = self.neighbors.get_mut(&address).map(|it| it.peer.shut_down(now));
        self.carry_out(address, farewell.unwrap_or_default());
        self.neighbors.remove(&address);
    }

    fn want(&mut self, wanted: &Wanted) {
        let gone = self
            .neighbors
            .iter()
            .filter(|(address, it)| wanted.neighbors.get(*address) != Some(&it.number));
        for address in gone.map(|it| *it.0).collect::<Vec<_>>() {
            self.leave(address);
        }
        for (address, number) in &wanted.neighbors {
            if !self.neighbors.contains_key(address) {
                let peer = Peer::new(self.config(*number), self.now());
                let neighbor = Neighbor { number: *number, peer, has_said_all: false, down: None };
                self.neighbors.insert(*address, neighbor);
            }
        }
        for address in self.neighbors.keys().copied().collect::<Vec<_>>() {
            let (now, all) = (self.now(), wanted.announced.clone());
            self.step(address, |peer| peer.announce(now, all));
        }
    }

    fn config(&self, peer_as: u32) -> bgp::Config {
        let own_as = self.place.bgp.own_as;
        bgp::Config {
            own_as,
            identifier: identifier(&self.place.local, &self.place.node),
            peer_as,
            families: self.place.families.clone(),
            hold_time: HOLD_TIME,
            is_dialing: true,
            restart_time: RESTART_TIME,
            has_restarted: self.place.has_restarted,
            routes_max: ROUTES_MAX,
            // Nodes of one AS on both sides of a router hear of each other.
            takes_own_as: own_as != peer_as,
        }
    }

    fn accept(&mut self, accepted: io::Result<(tokio::net::TcpStream, SocketAddr)>) {
        let Ok((stream, from)) = accepted else { return };
        // Whoever is no neighbor is not answered.
        if self.neighbors.contains_key(&from.ip()) {
            let id = self.begin(from.ip(), stream);
            let now = self.now();
            self.step(from.ip(), |peer| peer.step(now, Input::Accepted(id)));
        }
    }

    fn begin(&mut self, neighbor: IpAddr, stream: tokio::net::TcpStream) -> ConnectionId {
        self.next_id += 1;
        let id = ConnectionId(self.next_id);
        let (sender, outgoing) = mpsc::channel(UNSENT_MAX);
        self.of_lines.insert(id, (neighbor, sender));
        let events = self.events.clone();
        self.lines.spawn("bgp-line", |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = line::run(id, stream, outgoing, events) => {}
            }
        });
        id
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Dialed(neighbor, Ok(stream)) if self.neighbors.contains_key(&neighbor) => {
                let id = self.begin(neighbor, stream);
                self.step(neighbor, |peer| peer.step(now, Input::Dialed(id)));
            }
            Event::Dialed(_, Ok(_)) => {}
            Event::Dialed(neighbor, Err(err)) => {
                if let Some(it) = self.neighbors.get_mut(&neighbor).filter(|it| !it.peer.is_up()) {
                    it.down = Some(format!("it does not answer on port {PORT}: {err}"));
                }
                self.step(neighbor, |peer| peer.step(now, Input::DialFailed));
            }
            Event::Received(id, bytes) => {
                let Some((neighbor, _)) = self.of_lines.get(&id) else { return };
                self.step(*neighbor, |peer| peer.step(now, Input::Received(id, &bytes)));
            }
            Event::Closed(id) => {
                let Some((neighbor, _)) = self.of_lines.remove(&id) else { return };
                self.step(neighbor, |peer| peer.step(now, Input::Closed(id)));
            }
        }
    }

    fn come_due(&mut self) {
        let now = self.now();
        let is_due = |it: &Neighbor| it.peer.due().is_some_and(|it| it <= now);
        let due = self.neighbors.iter().filter(|(_, it)| is_due(it)).map(|it| *it.0);
        for address in due.collect::<Vec<_>>() {
            self.step(address, |peer| peer.step(now, Input::Due));
        }
    }

    fn step(&mut self, neighbor: IpAddr, step: impl FnOnce(&mut Peer) -> Vec<Action>) {
        let actions = self.neighbors.get_mut(&neighbor).map(|it| step(&mut it.peer));
        self.carry_out(neighbor, actions.unwrap_or_default());
    }

    fn carry_out(&mut self, address: IpAddr, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Dial => self.dial(address),
                Action::Send(id, bytes) => self.send(id, bytes),
                Action::Close(id) => {
                    self.of_lines.remove(&id);
                }
                Action::Up => {
                    tracing::info!(neighbor = %address, "a session of BGP");
                    self.note(address, |it| it.down = None);
                }
                Action::Down(why) => {
                    let why = error_chain(&why);
                    tracing::warn!(neighbor = %address, why, "no session of BGP");
                    self.note(address, |it| it.down = Some(why));
                }
                Action::HeardAll => self.note(address, |it| it.has_said_all = true),
                Action::Learned => {}
            }
        }
    }

    fn note(&mut self, address: IpAddr, note: impl FnOnce(&mut Neighbor)) {
        if let Some(neighbor) = self.neighbors.get_mut(&address) {
            note(neighbor);
        }
    }

    /// A peer that takes nothing is left: its connection closes when what sends on it is dropped.
    fn send(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        let Some((_, sender)) = self.of_lines.get(&id) else { return };
        if sender.try_send(bytes).is_err() {
            let events = self.events.clone();
            self.lines.spawn("bgp-stuck", |_| async move {
                // Nobody listens at the end.
                let _ = events.send(Event::Closed(id)).await;
            });
        }
    }

    fn dial(&self, to: IpAddr) {
        let from = self.local(Family::of(to));
        let password = self.place.bgp.password.clone();
        let (events, namespace) = (self.events.clone(), self.place.namespace.clone());
        self.lines.spawn("bgp-dial", |shutdown| async move {
            let dialing = async {
                let from = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
                let prepare = || line::prepare(from, to, password.as_deref());
                let socket = network_namespace::run_in(&namespace, prepare);
                line::dial(socket.map_err(|err| err.source)??, to).await
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                outcome = dialing => {
                    // Nobody listens at the end.
                    let _ = events.send(Event::Dialed(to, outcome)).await;
                }
            }
        });
    }

    fn tell(&self) {
        let peers = self.neighbors.iter().map(|(address, it)| (*address, &it.peer));
        let down = self.neighbors.iter().filter_map(|(address, it)| {
            Some((*address, it.down.clone().filter(|_| !it.peer.is_up())?))
        });
        let heard = Heard {
            routes: choice::choose(peers),
            is_complete: self.is_complete(),
            down: down.collect(),
        };
        self.told.send_if_modified(|it| std::mem::replace(it, heard.clone()) != heard);
    }
}
