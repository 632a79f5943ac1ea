//! From a query's packet to the answer's: parse, look the name up, render.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use simple_dns::rdata::{A, AAAA, CNAME, NS, PTR, RData, SOA, SRV, TXT};
use simple_dns::{
    CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, ResourceRecord, TYPE,
};
use stdx::Random;

use crate::forward::{Forwarder, Way};
use crate::wire;
use crate::zone::{Found, Record, Source, Zone};

/// As CoreDNS answers for Kubernetes; negative answers live as long as the authority's minimum.
const TTL: u32 = 5;
const NEGATIVE_TTL: u32 = 5;
/// What a client that says nothing can take, and what we give at most over UDP: no fragments.
const UDP_DEFAULT: usize = 512;
const UDP_MAX: usize = 1_232;
/// ExternalNames that point to each other.
const ALIASES_MAX: usize = 8;

pub(crate) struct Answerer {
    zone: Zone,
    source: Arc<dyn Source + Send + Sync>,
    forwarder: Forwarder,
    random: Random,
}

impl Answerer {
    pub(crate) fn new(
        zone: Zone,
        source: Arc<dyn Source + Send + Sync>,
        forwarder: Forwarder,
        random: Random,
    ) -> Self {
        Self { zone, source, forwarder, random }
    }

    /// The answer from memory, or the question to forward; `None`: not even a question.
    pub(crate) fn answer(&self, query: &[u8], way: Way) -> Option<Answer> {
        let Ok(packet) = Packet::parse(query) else {
            return Some(Answer::Ready(format_error(query)?));
        };
        if packet.has_flags(PacketFlag::RESPONSE) {
            return None;
        }
        let [question] = packet.questions.as_slice() else {
            return self.reply(&packet, Reply::code(RCODE::FormatError), way);
        };
        if packet.opcode() != OPCODE::StandardQuery || !is_internet(question.qclass) {
            return self.reply(&packet, Reply::code(RCODE::NotImplemented), way);
        }
        let name = question.qname.to_string().trim_end_matches('.').to_ascii_lowercase();
        match self.zone.find(&name, self.source.as_ref()) {
            Found::Foreign if self.forwarder.has_upstreams() => Some(Answer::Forward),
            Found::Foreign => self.reply(&packet, Reply::code(RCODE::Refused), way),
            Found::Missing => {
                let mut reply = Reply::code(RCODE::NameError);
                reply.has_authority = true;
                self.reply(&packet, reply, way)
            }
            Found::Records(records) => {
                let reply = self.select(&name, question, records);
                self.reply(&packet, reply, way)
            }
        }
    }

    /// For a query that [`Self::answer`] said to forward. A failure is an answer too.
    pub(crate) async fn forward(&self, query: &[u8], client: IpAddr, way: Way) -> Option<Bytes> {
        let packet = Packet::parse(query).ok()?;
        let Some(answer) = self.forwarder.ask(query, client).await else {
            return match self.reply(&packet, Reply::code(RCODE::ServerFailure), way)? {
                Answer::Ready(bytes) => Some(bytes),
                Answer::Forward => None,
            };
        };
        if answer.len() > size_max(&packet, way) { wire::cut(&answer) } else { Some(answer) }
    }

    /// Of all that a name has, what was asked for.
    fn select(&self, name: &str, question: &Question<'_>, records: Vec<Record>) -> Reply {
        let mut reply = Reply::code(RCODE::NoError);
        let mut records = records;
        self.shuffle(&mut records);
        let mut owner = name.to_owned();
        for _ in 0..ALIASES_MAX {
            let alias = records.iter().find_map(|it| match it {
                Record::Alias(target) => Some(target.clone()),
                _ => None,
            });
            for record in records {
                reply.add(&owner, record, question.qtype);
            }
            // An alias to another name of the cluster is followed; others the client asks for
            // itself.
            let Some(target) = alias.filter(|_| question.qtype != QTYPE::TYPE(TYPE::CNAME)) else {
                break;
            };
            owner = target.to_ascii_lowercase();
            match self.zone.find(&owner, self.source.as_ref()) {
                Found::Records(next) => records = next,
                Found::Foreign | Found::Missing => break,
            }
        }
        reply.has_authority = reply.answers.is_empty();
        reply
    }

    /// So that clients that take the first address are spread over all.
    fn shuffle(&self, records: &mut [Record]) {
        for index in (1..records.len()).rev() {
            let other = self.random.below(index as u64 + 1) as usize;
            records.swap(index, other);
        }
    }

    fn reply(&self, query: &Packet<'_>, reply: Reply, way: Way) -> Option<Answer> {
        let mut packet = Packet::new_reply(query.id());
        packet.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
        if query.has_flags(PacketFlag::RECURSION_DESIRED) {
            packet.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        packet.set_flags(PacketFlag::RECURSION_AVAILABLE);
        *packet.rcode_mut() = reply.code;
        packet.questions.clone_from(&query.questions);
        if query.opt().is_some() {
            *packet.opt_mut() = Some(simple_dns::rdata::OPT {
                opt_codes: Vec::new(),
                udp_packet_size: UDP_MAX as u16,
                version: 0,
            });
        }
        let render = |(name, record): &(String, Record)| self.render(name, record);
        packet.answers = reply.answers.iter().filter_map(render).collect();
        packet.additional_records = reply.additional.iter().filter_map(render).collect();
        if reply.has_authority {
            packet.name_servers.extend(self.render(self.zone.domain(), &Record::Authority));
        }
        let mut bytes = packet.build_bytes_vec_compressed().ok()?;
        if bytes.len() > size_max(query, way) {
            // Over TCP the client gets all of it.
            packet.set_flags(PacketFlag::TRUNCATION);
            packet.answers.clear();
            packet.additional_records.clear();
            bytes = packet.build_bytes_vec_compressed().ok()?;
        }
        Some(Answer::Ready(bytes.into()))
    }

    fn render(&self, name: &str, record: &Record) -> Option<ResourceRecord<'static>> {
        let owned = |text: &str| Name::new(text).ok().map(Name::into_owned);
        let (ttl, rdata) = match record {
            Record::Address(IpAddr::V4(it)) => (TTL, RData::A(A { address: (*it).into() })),
            Record::Address(IpAddr::V6(it)) => (TTL, RData::AAAA(AAAA { address: (*it).into() })),
            Record::Alias(target) => (TTL, RData::CNAME(CNAME(owned(target)?))),
            Record::Pointer(target) => (TTL, RData::PTR(PTR(owned(target)?))),
            Record::Text(text) => {
                (TTL, RData::TXT(TXT::new().with_string(text).ok()?.into_owned()))
            }
            Record::NameServer { target, .. } => (TTL, RData::NS(NS(owned(target)?))),
            Record::Service { port, weight, target, .. } => {
                let target = owned(target)?;
                (TTL, RData::SRV(SRV { priority: 0, weight: *weight, port: *port, target }))
            }
            Record::Authority => {
                let domain = self.zone.domain();
                let soa = SOA {
                    mname: owned(&format!("ns.dns.{domain}"))?,
                    rname: owned(&format!("hostmaster.{domain}"))?,
                    serial: 1,
                    refresh: 7_200,
                    retry: 1_800,
                    expire: 86_400,
                    minimum: NEGATIVE_TTL,
                };
                (NEGATIVE_TTL, RData::SOA(soa))
            }
        };
        Some(ResourceRecord::new(owned(name)?, CLASS::IN, ttl, rdata))
    }
}

pub(crate) enum Answer {
    Ready(Bytes),
    /// Others know.
    Forward,
}

struct Reply {
    code: RCODE,
    answers: Vec<(String, Record)>,
    additional: Vec<(String, Record)>,
    has_authority: bool,
}

impl Reply {
    fn code(code: RCODE) -> Self {
        Self { code, answers: Vec::new(), additional: Vec::new(), has_authority: false }
    }

    fn add(&mut self, owner: &str, record: Record, wanted: QTYPE) {
        let is_wanted = |kind: TYPE| wanted == QTYPE::ANY || wanted == QTYPE::TYPE(kind);
        let fits = match &record {
            Record::Address(IpAddr::V4(_)) => is_wanted(TYPE::A),
            Record::Address(IpAddr::V6(_)) => is_wanted(TYPE::AAAA),
            Record::Alias(_) => true,
            Record::Service { .. } => is_wanted(TYPE::SRV),
            Record::Pointer(_) => is_wanted(TYPE::PTR),
            Record::Text(_) => is_wanted(TYPE::TXT),
            Record::NameServer { .. } => is_wanted(TYPE::NS),
            Record::Authority => is_wanted(TYPE::SOA),
        };
        if !fits {
            return;
        }
        if let Record::Service { target, addresses, .. } = &record {
            // Ports of one Service share their target.
            if !self.additional.iter().any(|(name, _)| name == target) {
                let hosts = addresses.iter().map(|it| (target.clone(), Record::Address(*it)));
                self.additional.extend(hosts);
            }
        }
        self.answers.push((owner.to_owned(), record));
    }
}

/// What the client can take.
fn size_max(query: &Packet<'_>, way: Way) -> usize {
    match (way, query.opt()) {
        (Way::Tcp, _) => usize::from(u16::MAX),
        (Way::Udp, None) => UDP_DEFAULT,
        (Way::Udp, Some(opt)) => usize::from(opt.udp_packet_size).clamp(UDP_DEFAULT, UDP_MAX),
    }
}

fn is_internet(class: QCLASS) -> bool {
    matches!(class, QCLASS::CLASS(CLASS::IN) | QCLASS::ANY)
}

/// All that can be said of a packet of which only the id is known.
fn format_error(query: &[u8]) -> Option<Bytes> {
    let mut packet = Packet::new_reply(wire::id(query)?);
    *packet.rcode_mut() = RCODE::FormatError;
    Some(packet.build_bytes_vec().ok()?.into())
}
