//! One neighbor: its connections, of which one becomes the session; what it was told and what it
//! said. Events in, actions out (RFC 4271, 8; collisions 6.8; graceful restart RFC 4724).
//!
//! Whoever has the sockets does what the actions say and tells what came of it. It keeps what is to
//! be sent bounded, and closes the connection of a peer that takes nothing.

mod connection;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use stdx::{Cidr, Family};

use crate::message::{
    Attributes, Capability, DecodeError, GracefulRestart, Message, Notification, Open, Update,
};
use connection::{Connection, Phase};
use routes::{Announced, LearnedRoutes, TooMany};
pub use routes::{Announcement, Learned, Path};

/// Time since some start, which only goes forward.
pub type Moment = Duration;

/// Until somebody says who he is (RFC 4271, 8.2.2 proposes 4 minutes).
const PATIENCE: Duration = Duration::from_secs(240);
/// Who sent more routes than he may is left alone for so long.
const PENALTY: Duration = Duration::from_secs(300);
/// A dial that failed is repeated after the first, and after twice the time each time, up to the
/// last.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct Config {
    pub own_as: u32,
    pub identifier: Ipv4Addr,
    /// Of the neighbor. The same as `own_as`: it is one of ours.
    pub peer_as: u32,
    pub families: Vec<Family>,
    /// Silence that is longer ends the session. At least 3 s.
    pub hold_time: Duration,
    /// Whether we dial, or wait to be called.
    pub is_dialing: bool,
    /// For so long the peer shall keep our routes while we are away, and packets go on here.
    pub restart_time: Duration,
    /// We were there a moment ago, and what the kernel had of us is still there.
    pub has_restarted: bool,
    /// A peer with more ends its session.
    pub routes_max: usize,
    /// Routes that went through our own AS are believed. No circle can come of it, since we pass
    /// nothing on.
    pub takes_own_as: bool,
}

/// A connection, as whoever has the sockets names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// What [`Action::Dial`] asked for.
    Dialed(ConnectionId),
    DialFailed,
    /// The peer called.
    Accepted(ConnectionId),
    Received(ConnectionId, &'a [u8]),
    /// By the peer, or by the network.
    Closed(ConnectionId),
    /// [`Peer::due`] has come.
    Due,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Dial,
    Send(ConnectionId, Vec<u8>),
    /// After all that is to be sent on it was sent.
    Close(ConnectionId),
    /// There is a session now.
    Up,
    /// There is none any more.
    Down(Down),
    /// [`Peer::learned`] is other than before.
    Learned,
    /// The peer has said all it had to say at the beginning of the session.
    HeardAll,
}

/// Why there is no session, or why one could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Down {
    #[error("the peer said: {0}")]
    Told(Notification),
    #[error("told the peer: {0}")]
    Said(Notification),
    #[error("the peer is of AS {found}, and AS {expected} was expected")]
    OtherAs { expected: u32, found: u32 },
    #[error("the peer does not know numbers of ASes of four bytes (RFC 6793)")]
    OldPeer,
    #[error("the connection was closed")]
    Closed,
    #[error("the peer called again")]
    CalledAgain,
}

/// How long until something is done again, whatever happens meanwhile.
#[derive(Debug)]
struct Retry {
    at: Option<Moment>,
    next: Duration,
}

#[derive(Debug)]
pub struct Peer {
    config: Config,
    /// At most one that we dialed and one that the peer did, at most one of them established.
    connections: Vec<Connection>,
    is_dialing: bool,
    retry: Retry,
    is_shut_down: bool,
    announced: Announced,
    learned: LearnedRoutes,
    /// Families of the session of which the peer has not said yet that it has said all.
    unheard: BTreeSet<Family>,
    /// The peer is away, and its stale routes are kept until then.
    stale_until: Option<Moment>,
    has_been_up: bool,
}

impl Peer {
    pub fn new(config: Config, now: Moment) -> Self {
        Self {
            learned: LearnedRoutes::new(config.routes_max),
            retry: Retry { at: config.is_dialing.then_some(now), next: RETRY_FIRST },
            config,
            connections: Vec::new(),
            is_dialing: false,
            is_shut_down: false,
            announced: Announced::default(),
            unheard: BTreeSet::new(),
            stale_until: None,
            has_been_up: false,
        }
    }

    pub fn is_external(&self) -> bool {
        self.config.own_as != self.config.peer_as
    }

    pub fn is_up(&self) -> bool {
        self.session().is_some()
    }

    /// As the peer names itself, while there is a session.
    pub fn identifier(&self) -> Option<Ipv4Addr> {
        self.session().map(|(_, open)| open.identifier)
    }

    pub fn learned(&self) -> &BTreeMap<Cidr, Learned> {
        self.learned.all()
    }

    /// When to come back with [`Input::Due`].
    pub fn due(&self) -> Option<Moment> {
        let retry = self.retry.at.filter(|_| !self.is_shut_down);
        let connections = self.connections.iter().filter_map(Connection::due);
        connections.chain(retry).chain(self.stale_until).min()
    }

    /// From now on these are what we have to say: all, whatever was said before. Ranges whose next hop
    /// is of another family are not said.
    pub fn announce(&mut self, now: Moment, all: BTreeMap<Cidr, Announcement>) -> Vec<Action> {
        let change = self.announced.set(all);
        let mut actions = Vec::new();
        if let Some((id, families)) = self.spoken() {
            for bytes in change.messages(&families, self.path_from_here()) {
                self.send_bytes(id, now, bytes, &mut actions);
            }
        }
        actions
    }

    /// For good.
    pub fn shut_down(&mut self, now: Moment) -> Vec<Action> {
        let mut actions = Vec::new();
        self.is_shut_down = true;
        for id in self.ids() {
            self.refuse(id, now, Notification::SHUT_DOWN, &mut actions);
        }
        actions
    }

    pub fn step(&mut self, now: Moment, input: Input<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Dialed(id) => {
                self.is_dialing = false;
                self.begin(id, true, now, &mut actions);
            }
            Input::DialFailed => {
                self.is_dialing = false;
                self.retry_later(now);
            }
            Input::Accepted(id) => self.accept(id, now, &mut actions),
            Input::Received(id, bytes) => self.receive(id, now, bytes, &mut actions),
            Input::Closed(id) => self.end(id, now, Ending::Lost(Down::Closed), &mut actions),
            Input::Due => self.come_due(now, &mut actions),
        }
        actions
    }

    fn come_due(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for id in self.ids() {
            let Some(connection) = self.connection(id) else { continue };
            if connection.is_silent(now) {
                self.refuse(id, now, Notification::HOLD_TIME_OVER, actions);
            } else if connection.owes_keepalive(now) {
                self.send(id, now, &Message::Keepalive, actions);
            }
        }
        if self.stale_until.is_some_and(|it| it <= now) {
            self.stale_until = None;
            self.forget_stale(None, actions);
        }
        let is_time = self.retry.at.is_some_and(|it| it <= now);
        if is_time && !self.is_shut_down {
            self.retry.at = None;
            if self.connections.is_empty() && !self.is_dialing {
                self.is_dialing = true;
                actions.push(Action::Dial);
            }
        }
    }

    fn retry_later(&mut self, now: Moment) {
        if self.config.is_dialing && !self.is_shut_down {
            self.retry.at = Some(now + self.retry.next);
            self.retry.next = (self.retry.next * 2).min(RETRY_LAST);
        }
    }

    /// Of who calls while there is a session nobody knows whether he has died and come back, unless
    /// both said that they would (RFC 4724, 5).
    fn accept(&mut self, id: ConnectionId, now: Moment, actions: &mut Vec<Action>) {
        let session = self.session().map(|(id, open)| (id, open.graceful_restart().is_some()));
        match session {
            Some((old, true)) => self.end(old, now, Ending::Lost(Down::CalledAgain), actions),
            Some((_, false)) => {
                let said = Message::Notification(Notification::COLLISION);
                actions.extend(said.encode().map(|bytes| Action::Send(id, bytes)));
                actions.push(Action::Close(id));
                return;
            }
            None => {}
        }
        self.begin(id, false, now, actions);
    }

    fn begin(&mut self, id: ConnectionId, is_ours: bool, now: Moment, actions: &mut Vec<Action>) {
        if self.is_shut_down || self.is_up() {
            actions.push(Action::Close(id));
            return;
        }
        // Of several from the same side the last one counts: the others are of a peer that is gone.
        if let Some(older) = self.connections.iter().find(|it| it.is_ours == is_ours) {
            let older = older.id;
            self.refuse(older, now, Notification::COLLISION, actions);
        }
        self.connections.push(Connection::new(id, is_ours, now, PATIENCE));
        self.send(id, now, &Message::Open(self.open()), actions);
    }

    fn open(&self) -> Open {
        let config = &self.config;
        let hold_time = u16::try_from(config.hold_time.as_secs()).unwrap_or(u16::MAX).max(3);
        let mut open = Open::new(config.own_as, hold_time, config.identifier);
        open.capabilities.extend(config.families.iter().copied().map(Capability::Family));
        open.capabilities.push(Capability::GracefulRestart(GracefulRestart {
            has_restarted: config.has_restarted && !self.has_been_up,
            time: config.restart_time,
            families: config.families.iter().map(|it| (*it, true)).collect(),
        }));
        open
    }

    fn receive(&mut self, id: ConnectionId, now: Moment, bytes: &[u8], actions: &mut Vec<Action>) {
        let Some(connection) = self.connection_mut(id) else { return };
        connection.take(bytes, now);
        // Each message may end the connection.
        while let Some(connection) = self.connection_mut(id) {
            match connection.next_message() {
                Ok(Some(message)) => self.hear(id, now, message, actions),
                Ok(None) => return,
                Err(DecodeError(told)) => self.refuse(id, now, told, actions),
            }
        }
    }

    fn hear(&mut self, id: ConnectionId, now: Moment, message: Message, actions: &mut Vec<Action>) {
        let Some(connection) = self.connection(id) else { return };
        match (&connection.phase, message) {
            (_, Message::Notification(told)) => {
                let ending = Ending::Wanted(Down::Told(told));
                self.end(id, now, ending, actions);
            }
            (Phase::OpenSent, Message::Open(open)) => self.meet(id, now, open, actions),
            (Phase::OpenConfirm(_), Message::Keepalive) => self.establish(id, now, actions),
            (Phase::Established(_), Message::Keepalive) => {}
            (Phase::Established(_), Message::Update(update)) => {
                self.learn(id, now, update, actions);
            }
            (Phase::Established(_), Message::Refresh(family)) => {
                self.say_all(id, now, family, actions);
            }
            _ => self.refuse(id, now, Notification::NOT_NOW, actions),
        }
    }

    /// The peer says who it is.
    fn meet(&mut self, id: ConnectionId, now: Moment, open: Open, actions: &mut Vec<Action>) {
        if let Err((said, why)) = self.judge(&open) {
            let message = Message::Notification(said);
            self.send(id, now, &message, actions);
            actions.push(Action::Close(id));
            self.end(id, now, Ending::Wanted(why), actions);
            return;
        }
        if let Some(other) = self.collides(id, &open) {
            self.refuse(other, now, Notification::COLLISION, actions);
        }
        if self.connection(id).is_none() {
            return;
        }
        let hold = Duration::from_secs(open.hold_time.into()).min(self.config.hold_time);
        self.send(id, now, &Message::Keepalive, actions);
        if let Some(connection) = self.connection_mut(id) {
            connection.hold = (!hold.is_zero()).then_some(hold);
            connection.phase = Phase::OpenConfirm(open);
        }
    }

    fn judge(&self, open: &Open) -> Result<(), (Notification, Down)> {
        let Some(found) = open.own_as() else {
            let (code, value) = Capability::FourOctetAs(self.config.own_as).encode();
            let data = [&[code, value.len() as u8][..], &value].concat();
            return Err((Notification::missing_capability(data), Down::OldPeer));
        };
        let expected = self.config.peer_as;
        if found != expected {
            return Err((Notification::BAD_PEER_AS, Down::OtherAs { expected, found }));
        }
        let is_ourselves = open.identifier == self.config.identifier && !self.is_external();
        let said = if open.identifier.is_unspecified() || is_ourselves {
            Notification::BAD_IDENTIFIER
        } else if matches!(open.hold_time, 1 | 2) {
            Notification::BAD_HOLD_TIME
        } else {
            return Ok(());
        };
        Err((said.clone(), Down::Said(said)))
    }

    /// Which of two connections has to go: that of who has the lower number (RFC 4271, 6.8; between
    /// equals of different ASes RFC 6286 lets the AS decide).
    fn collides(&self, id: ConnectionId, open: &Open) -> Option<ConnectionId> {
        let this = self.connection(id)?;
        let other = self.connections.iter().find(|it| it.id != id)?;
        if !matches!(other.phase, Phase::OpenConfirm(_)) {
            return None;
        }
        let ours = (self.config.identifier, self.config.own_as);
        let keeps_ours = ours > (open.identifier, self.config.peer_as);
        Some(if this.is_ours == keeps_ours { other.id } else { this.id })
    }

    fn establish(&mut self, id: ConnectionId, now: Moment, actions: &mut Vec<Action>) {
        for other in self.ids() {
            if other != id {
                self.refuse(other, now, Notification::COLLISION, actions);
            }
        }
        let Some(connection) = self.connection_mut(id) else { return };
        let Phase::OpenConfirm(open) = &connection.phase else { return };
        let open = open.clone();
        connection.phase = Phase::Established(open.clone());
        self.retry = Retry { at: None, next: RETRY_FIRST };
        self.has_been_up = true;
        actions.push(Action::Up);
        self.keep_what_was_kept(&open, actions);
        self.say_all(id, now, None, actions);
        let restarting = open.graceful_restart();
        let ends = |it: &Family| restarting.is_some_and(|all| all.families.contains_key(it));
        self.unheard =
            self.spoken().map_or(Vec::new(), |it| it.1).into_iter().filter(ends).collect();
        if self.unheard.is_empty() {
            actions.push(Action::HeardAll);
            self.forget_stale(None, actions);
        }
    }

    /// What it said before holds until it has said all, if packets went on meanwhile.
    fn keep_what_was_kept(&mut self, open: &Open, actions: &mut Vec<Action>) {
        let kept = open.graceful_restart().map(|it| &it.families);
        for family in [Family::V4, Family::V6] {
            if !kept.and_then(|it| it.get(&family)).copied().unwrap_or(false) {
                self.forget_stale(Some(family), actions);
            }
        }
        // The time of the session decides from here on: a peer that never says that it has said all
        // keeps what it said for as long as it may be away.
        let time = open.graceful_restart().map(|it| it.time);
        self.stale_until = self.stale_until.and_then(|it| Some(it + time?));
    }

    fn say_all(
        &mut self,
        id: ConnectionId,
        now: Moment,
        only: Option<Family>,
        actions: &mut Vec<Action>,
    ) {
        let Some((_, mut families)) = self.spoken() else { return };
        families.retain(|it| only.is_none_or(|only| only == *it));
        for bytes in self.announced.all().messages(&families, self.path_from_here()) {
            self.send_bytes(id, now, bytes, actions);
        }
        for family in families {
            let end = Update { end_of: Some(family), ..Update::default() };
            self.send(id, now, &Message::Update(end), actions);
        }
    }

    fn learn(&mut self, id: ConnectionId, now: Moment, update: Update, actions: &mut Vec<Action>) {
        if let Some(family) = update.end_of {
            if self.unheard.remove(&family) {
                self.forget_stale(Some(family), actions);
                if self.unheard.is_empty() {
                    self.stale_until = None;
                    actions.push(Action::HeardAll);
                }
            }
            return;
        }
        let Some((_, families)) = self.spoken() else { return };
        let is_loop = self.is_loop(&update.attributes);
        match self.learned.take(update, &families, is_loop) {
            Ok(true) => actions.push(Action::Learned),
            Ok(false) => {}
            Err(TooMany) => {
                self.refuse(id, now, Notification::TOO_MANY_ROUTES, actions);
                self.retry.at = self.retry.at.map(|_| now + PENALTY);
            }
        }
    }

    /// It is our own word that came back.
    fn is_loop(&self, attributes: &Attributes) -> bool {
        let config = &self.config;
        let is_through_us = !config.takes_own_as && attributes.as_path.contains(config.own_as);
        is_through_us || attributes.originator == Some(config.identifier)
    }

    /// Says why, and closes.
    fn refuse(
        &mut self,
        id: ConnectionId,
        now: Moment,
        said: Notification,
        actions: &mut Vec<Action>,
    ) {
        self.send(id, now, &Message::Notification(said.clone()), actions);
        actions.push(Action::Close(id));
        self.end(id, now, Ending::Wanted(Down::Said(said)), actions);
    }

    /// The connection is closed, or will be.
    fn end(&mut self, id: ConnectionId, now: Moment, ending: Ending, actions: &mut Vec<Action>) {
        let Some(at) = self.connections.iter().position(|it| it.id == id) else { return };
        let connection = self.connections.swap_remove(at);
        let (down, is_lost) = match ending {
            Ending::Lost(down) => (down, true),
            Ending::Wanted(down) => (down, false),
        };
        if let (Down::Told(_) | Down::CalledAgain, _) = (&down, is_lost) {
            actions.push(Action::Close(id));
        }
        let Phase::Established(open) = connection.phase else {
            if self.connections.is_empty() {
                actions.push(Action::Down(down));
                self.retry_later(now);
            }
            return;
        };
        actions.push(Action::Down(down));
        self.unheard.clear();
        self.leave(open.graceful_restart().filter(|_| is_lost), now, actions);
        self.retry_later(now);
    }

    /// What was learned stays for a while if the peer said that packets go on, and ends without.
    fn leave(&mut self, restart: Option<&GracefulRestart>, now: Moment, actions: &mut Vec<Action>) {
        let is_kept = |family| restart.is_some_and(|it| it.families.contains_key(&family));
        if self.learned.mark_stale(&is_kept) {
            actions.push(Action::Learned);
        }
        let has_stale = self.learned.all().values().any(|it| it.is_stale);
        self.stale_until = restart.filter(|_| has_stale).map(|it| now + it.time);
    }

    fn forget_stale(&mut self, family: Option<Family>, actions: &mut Vec<Action>) {
        if self.learned.forget_stale(family) {
            actions.push(Action::Learned);
        }
    }

    fn send(
        &mut self,
        id: ConnectionId,
        now: Moment,
        message: &Message,
        actions: &mut Vec<Action>,
    ) {
        if let Some(bytes) = message.encode() {
            self.send_bytes(id, now, bytes, actions);
        }
    }

    fn send_bytes(
        &mut self,
        id: ConnectionId,
        now: Moment,
        bytes: Vec<u8>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(connection) = self.connection_mut(id) {
            connection.sent_at = now;
            actions.push(Action::Send(id, bytes));
        }
    }

    fn path_from_here(&self) -> Option<u32> {
        self.is_external().then_some(self.config.own_as)
    }

    fn session(&self) -> Option<(ConnectionId, &Open)> {
        self.connections.iter().find_map(|it| match &it.phase {
            Phase::Established(open) => Some((it.id, open)),
            Phase::OpenSent | Phase::OpenConfirm(_) => None,
        })
    }

    /// The session, and the families that both speak of.
    fn spoken(&self) -> Option<(ConnectionId, Vec<Family>)> {
        let (id, open) = self.session()?;
        let theirs = open.families();
        let both = self.config.families.iter().copied().filter(|it| theirs.contains(it));
        Some((id, both.collect()))
    }

    fn ids(&self) -> Vec<ConnectionId> {
        self.connections.iter().map(|it| it.id).collect()
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.iter().find(|it| it.id == id)
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|it| it.id == id)
    }
}

/// How a connection comes to its end.
#[derive(Debug)]
enum Ending {
    /// Nobody said anything: the other side may come back (RFC 4724, 4.2).
    Lost(Down),
    Wanted(Down),
}
