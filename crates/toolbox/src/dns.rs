//! `dns`: asks the servers of `/etc/resolv.conf` (or one that is named), trying the search path as
//! libc does.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Such as web, web.default.svc.cluster.local or an address
    name: String,
    /// A, AAAA, SRV, PTR, CNAME; without it A and AAAA
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_type)]
    kind: Option<TYPE>,
    /// Ask this server instead
    #[arg(long, value_name = "IP")]
    server: Option<IpAddr>,
    /// Ask over TCP
    #[arg(long)]
    tcp: bool,
}

const TIMEOUT: Duration = Duration::from_secs(3);

fn parse_type(text: &str) -> Result<TYPE, String> {
    match text.to_ascii_uppercase().as_str() {
        "A" => Ok(TYPE::A),
        "AAAA" => Ok(TYPE::AAAA),
        "SRV" => Ok(TYPE::SRV),
        "PTR" => Ok(TYPE::PTR),
        "CNAME" => Ok(TYPE::CNAME),
        _ => Err(format!("{text:?} is not one of A, AAAA, SRV, PTR, CNAME")),
    }
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let settings = Settings::parse(&text);
    let server = match flags.server.or_else(|| settings.servers.first().copied()) {
        Some(server) => SocketAddr::new(server, 53),
        None => bail!("dns: no nameserver in /etc/resolv.conf"),
    };
    let (names, kinds) = questions(flags, &settings);
    for name in &names {
        let mut lines = Vec::new();
        for kind in &kinds {
            lines.extend(ask(server, name, *kind, flags.tcp)?);
        }
        if !lines.is_empty() {
            lines.iter().for_each(|line| println!("{line}"));
            return Ok(());
        }
    }
    bail!("dns: {} not found; asked {server} for {}", flags.name, names.join(", "))
}

fn questions(flags: &Flags, settings: &Settings) -> (Vec<String>, Vec<TYPE>) {
    if let Ok(address) = flags.name.parse::<IpAddr>() {
        return (vec![reverse(address)], vec![TYPE::PTR]);
    }
    let kinds = match flags.kind {
        Some(kind) => vec![kind],
        None => vec![TYPE::A, TYPE::AAAA],
    };
    (settings.candidates(&flags.name), kinds)
}

/// The name under which an address has its PTR record.
fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(it) => {
            let [a, b, c, d] = it.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(it) => {
            let digits: String = it.octets().iter().map(|byte| format!("{byte:02x}")).collect();
            let reversed: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", reversed.join("."))
        }
    }
}

/// The answers as lines; none when the name or the type does not exist.
fn ask(server: SocketAddr, name: &str, kind: TYPE, is_tcp: bool) -> Result<Vec<String>> {
    let mut query = Packet::new_query(rustix::process::getpid().as_raw_nonzero().get() as u16);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).with_context(|| format!("dns: {name:?} is not a name"))?;
    query.questions.push(Question::new(name, kind.into(), CLASS::IN.into(), false));
    let query = query.build_bytes_vec().context("dns: encoding the question")?;
    let exchanged = if is_tcp { over_tcp(server, &query) } else { over_udp(server, &query) };
    let mut reply = exchanged.with_context(|| format!("dns: asking {server}"))?;
    let is_cut = Packet::parse(&reply).is_ok_and(|it| it.has_flags(PacketFlag::TRUNCATION));
    if is_cut && !is_tcp {
        reply = over_tcp(server, &query).with_context(|| format!("dns: asking {server}"))?;
    }
    let reply = Packet::parse(&reply).context("dns: the answer makes no sense")?;
    match reply.rcode() {
        RCODE::NoError => Ok(reply.answers.iter().map(render).collect()),
        RCODE::NameError => Ok(Vec::new()),
        other => bail!("dns: {server} answered {other:?}"),
    }
}

fn render(record: &simple_dns::ResourceRecord<'_>) -> String {
    let data = match &record.rdata {
        RData::A(it) => format!("A {}", std::net::Ipv4Addr::from(it.address)),
        RData::AAAA(it) => format!("AAAA {}", std::net::Ipv6Addr::from(it.address)),
        RData::SRV(it) => format!("SRV {} {} {} {}", it.priority, it.weight, it.port, it.target),
        RData::PTR(it) => format!("PTR {}", it.0),
        RData::CNAME(it) => format!("CNAME {}", it.0),
        other => format!("{other:?}"),
    };
    format!("{} {} {data}", record.name, record.ttl)
}

fn over_udp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let any: SocketAddr =
        if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(server)?;
    socket.send(query)?;
    let mut reply = vec![0; 4096];
    let length = socket.recv(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

fn over_tcp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&[&(query.len() as u16).to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

#[derive(Debug, Default)]
struct Settings {
    servers: Vec<IpAddr>,
    searches: Vec<String>,
    dots: usize,
}

impl Settings {
    fn parse(text: &str) -> Self {
        let mut settings = Self { dots: 1, ..Self::default() };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    settings.servers.extend(words.filter_map(|it| it.parse::<IpAddr>().ok()));
                }
                Some("search") => settings.searches = words.map(str::to_owned).collect(),
                Some("options") => {
                    let mut dots = words.filter_map(|it| it.strip_prefix("ndots:")?.parse().ok());
                    settings.dots = dots.next_back().unwrap_or(settings.dots);
                }
                _ => {}
            }
        }
        settings
    }

    /// In the order they are tried: a name with enough dots first as it is.
    fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(absolute) = name.strip_suffix('.') {
            return vec![absolute.to_owned()];
        }
        let mut names: Vec<String> =
            self.searches.iter().map(|search| format!("{name}.{search}")).collect();
        let is_first = name.matches('.').count() >= self.dots;
        names.insert(if is_first { 0 } else { names.len() }, name.to_owned());
        names
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, reverse};

    #[test]
    fn names_are_tried_as_libc_does() {
        let settings = Settings::parse(
            "nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local\noptions ndots:5",
        );
        assert_eq!(
            settings.candidates("web"),
            ["web.default.svc.cluster.local", "web.svc.cluster.local", "web"]
        );
        assert_eq!(settings.candidates("web."), ["web"]);
        assert_eq!(settings.candidates("a.b.c.d.e.f")[0], "a.b.c.d.e.f");
    }

    #[test]
    fn addresses_have_reverse_names() {
        assert_eq!(reverse([10, 244, 0, 7].into()), "7.0.244.10.in-addr.arpa");
        assert!(reverse("fd00::1".parse().unwrap()).starts_with("1.0.0.0."));
    }
}
