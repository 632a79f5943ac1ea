//! Questions in, answers out: over the zone alone, and over real sockets with an upstream.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use lifecycle::Tasks;
use simple_dns::rdata::{A, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, ResourceRecord, TYPE};
use stdx::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use crate::answer::Answerer;
use crate::forward::Forwarder;
use crate::server;
use crate::zone::{Found, Host, Port, ServiceKind, ServiceNames, Source, Zone, dashed};

/// `web` has a cluster address, `db` is headless with two hosts, `big` with many, `out` is an
/// ExternalName, `near` an alias of `web`, `empty` is headless without hosts.
struct Cluster;

fn port(name: &str, port: u16) -> Port {
    Port { name: name.to_owned(), protocol: "tcp".to_owned(), port }
}

fn host(name: Option<&str>, address: impl Into<IpAddr>) -> Host {
    let address = address.into();
    let name = name.map_or_else(|| dashed(address), str::to_owned);
    Host { name, address, ports: vec![port("sql", 5432)] }
}

fn ipv6(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl Source for Cluster {
    fn has_namespace(&self, namespace: &str) -> bool {
        matches!(namespace, "default" | "kube-system")
    }

    fn service(&self, namespace: &str, name: &str) -> Option<ServiceNames> {
        let kind = match (namespace, name) {
            ("default", "web") => ServiceKind::Cluster(vec![[10, 96, 0, 7].into()]),
            ("kube-system", "kube-dns") => ServiceKind::Cluster(vec![[10, 96, 0, 10].into()]),
            ("default", "db") => ServiceKind::Headless(vec![
                host(Some("db-0"), [10, 244, 0, 3]),
                host(None, [10, 244, 0, 4]),
            ]),
            ("default", "big") => {
                ServiceKind::Headless((0..200).map(|n| host(None, [10, 244, 1, n])).collect())
            }
            ("default", "both") => {
                ServiceKind::Cluster(vec![[10, 96, 0, 8].into(), ipv6("fd00:10:96::8")])
            }
            ("default", "pair") => ServiceKind::Headless(vec![
                host(Some("pair-0"), [10, 244, 0, 5]),
                host(Some("pair-0"), ipv6("fd00:10:244::5")),
                host(None, ipv6("fd00:10:244::6")),
            ]),
            ("default", "empty") => ServiceKind::Headless(Vec::new()),
            ("default", "out") => ServiceKind::External("example.com".to_owned()),
            ("default", "near") => {
                ServiceKind::External("web.default.svc.cluster.local".to_owned())
            }
            _ => return None,
        };
        Some(ServiceNames { kind, ports: vec![port("http", 80)] })
    }

    fn service_at(&self, address: IpAddr) -> Option<(String, String)> {
        let name = match address.to_string().as_str() {
            "10.96.0.7" => "web",
            "fd00:10:96::8" => "both",
            _ => return None,
        };
        Some(("default".into(), name.into()))
    }

    fn endpoint_at(&self, address: IpAddr) -> Option<(String, String, String)> {
        let (service, host) = match address.to_string().as_str() {
            "10.244.0.3" => ("db", "db-0"),
            "fd00:10:244::6" => ("pair", "fd00-10-244--6"),
            _ => return None,
        };
        Some(("default".into(), service.into(), host.into()))
    }
}

#[test]
fn names_mean_what_the_specification_says() {
    let zone = Zone::new("cluster.local");
    let check = |name: &str, expected: &str| {
        let actual = match zone.find(name, &Cluster) {
            Found::Foreign => "foreign".to_owned(),
            Found::Missing => "missing".to_owned(),
            Found::Records(records) => format!("{records:?}"),
        };
        let plain = actual.replace("Address(", "").replace("})", "}").replace(")]", "]");
        assert!(plain.contains(expected), "{name}: {plain}");
    };
    check("web.default.svc.cluster.local", "[10.96.0.7");
    check("_http._tcp.web.default.svc.cluster.local", "port: 80, weight: 100, target: \"web.def");
    check("_tcp.web.default.svc.cluster.local", "[]");
    check("_ftp._tcp.web.default.svc.cluster.local", "missing");
    check("db.default.svc.cluster.local", "[10.244.0.3), 10.244.0.4)");
    check("db-0.db.default.svc.cluster.local", "[10.244.0.3]");
    check("10-244-0-4.db.default.svc.cluster.local", "[10.244.0.4]");
    check("db-7.db.default.svc.cluster.local", "missing");
    check("_sql._tcp.db.default.svc.cluster.local", "weight: 50, target: \"db-0.db.default.svc");
    check("empty.default.svc.cluster.local", "missing");
    check("out.default.svc.cluster.local", "Alias(\"example.com\"");
    check("10-244-0-9.default.pod.cluster.local", "[10.244.0.9]");
    check("10-244-0-9.other.pod.cluster.local", "missing");
    check("default.svc.cluster.local", "[]");
    check("other.svc.cluster.local", "missing");
    check("svc.cluster.local", "[]");
    check("dns-version.cluster.local", "1.1.0");
    check("ns.dns.cluster.local", "[10.96.0.10]");
    check("7.0.96.10.in-addr.arpa", "web.default.svc.cluster.local");
    check("3.0.244.10.in-addr.arpa", "db-0.db.default.svc.cluster.local");
    check("9.9.9.9.in-addr.arpa", "foreign");
    check("both.default.svc.cluster.local", "[10.96.0.8), fd00:10:96::8)");
    check("pair.default.svc.cluster.local", "[10.244.0.5), fd00:10:244::5), fd00:10:244::6)");
    check("pair-0.pair.default.svc.cluster.local", "[10.244.0.5), fd00:10:244::5]");
    check("fd00-10-244--6.pair.default.svc.cluster.local", "[fd00:10:244::6]");
    // A host is one target, whatever its families.
    check(
        "_sql._tcp.pair.default.svc.cluster.local",
        "addresses: [fd00:10:244::6] }, Service { port: 5432, weight: 50, \
         target: \"pair-0.pair.default.svc.cluster.local\", \
         addresses: [10.244.0.5, fd00:10:244::5] }]",
    );
    check("fd00--1.default.pod.cluster.local", "[fd00::1]");
    check("fd00-10-244--6.default.pod.cluster.local", "[fd00:10:244::6]");
    check("--1.default.pod.cluster.local", "[::1]");
    check("fd00-1.default.pod.cluster.local", "missing");
    let reversed = |address: &str| {
        let bytes = address.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let nibbles = bytes.iter().rev().map(|it| format!("{:x}.{:x}.", it & 15, it >> 4));
        format!("{}ip6.arpa", nibbles.collect::<String>())
    };
    check(&reversed("fd00:10:96::8"), "Pointer(\"both.default.svc.cluster.local");
    check(&reversed("fd00:10:244::6"), "Pointer(\"fd00-10-244--6.pair.default.svc.cluster.local");
    check(&reversed("2001:db8::1"), "foreign");
    check("1.ip6.arpa", "foreign");
    check("nowhere.cluster.local", "missing");
    check("example.com", "foreign");
    check("mycluster.local", "foreign");
}

/// A name server that answers every question with 192.0.2.1 and counts them.
async fn upstream() -> (SocketAddr, tokio::sync::watch::Receiver<u32>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let (count, counted) = tokio::sync::watch::channel(0);
    let tasks = Tasks::new();
    tasks.spawn("upstream", |_| async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            count.send_modify(|it| *it += 1);
            let bytes = reply(&buffer[..length], TRUTH).build_bytes_vec().unwrap();
            socket.send_to(&bytes, from).await.unwrap();
        }
    });
    (address, counted)
}

async fn started(upstreams: Vec<SocketAddr>) -> SocketAddr {
    started_on(&["127.0.0.1:0"], upstreams).await[0]
}

async fn started_on(listen: &[&str], upstreams: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let listen: Vec<_> = listen.iter().map(|it| it.parse().unwrap()).collect();
    let random = Random::from_seed(1);
    let forwarder = Forwarder::new(upstreams, random.clone());
    let answerer = Answerer::new(Zone::new("cluster.local"), Arc::new(Cluster), forwarder, random);
    server::start(&listen, &Tasks::new(), Arc::new(answerer)).await.unwrap()
}

fn query(name: &str, kind: TYPE) -> Vec<u8> {
    let mut packet = Packet::new_query(4711);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).unwrap();
    packet.questions.push(Question::new(name, kind.into(), CLASS::IN.into(), false));
    packet.build_bytes_vec().unwrap()
}

fn render(reply: &[u8]) -> String {
    let reply = Packet::parse(reply).unwrap();
    assert_eq!(reply.id(), 4711);
    let mut lines: Vec<String> = reply
        .answers
        .iter()
        .map(|it| match &it.rdata {
            RData::AAAA(aaaa) => format!("{}", std::net::Ipv6Addr::from(aaaa.address)),
            RData::A(a) => format!("{}", std::net::Ipv4Addr::from(a.address)),
            RData::CNAME(alias) => format!("{} is {}", it.name, alias.0),
            RData::SRV(srv) => format!("{}:{}", srv.target, srv.port),
            RData::PTR(ptr) => ptr.0.to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    lines.sort();
    let cut = if reply.has_flags(PacketFlag::TRUNCATION) { " cut" } else { "" };
    format!("{:?}{cut} {}", reply.rcode(), lines.join(" "))
}

async fn ask(server: SocketAddr, query: &[u8]) -> String {
    let any = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any).await.unwrap();
    socket.send_to(query, server).await.unwrap();
    let mut reply = [0; 4096];
    let received = tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut reply));
    let length = received.await.expect("an answer").unwrap();
    render(&reply[..length])
}

async fn ask_over_tcp(server: SocketAddr, query: &[u8]) -> String {
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(&(query.len() as u16).to_be_bytes()).await.unwrap();
    stream.write_all(query).await.unwrap();
    let length = stream.read_u16().await.unwrap();
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await.unwrap();
    render(&reply)
}

#[tokio::test]
async fn questions_are_answered_over_udp_and_tcp() {
    let server = started(Vec::new()).await;
    let web = "WEB.default.svc.cluster.local";
    assert_eq!(ask(server, &query(web, TYPE::A)).await, "NoError 10.96.0.7");
    assert_eq!(ask(server, &query(web, TYPE::AAAA)).await, "NoError ");
    assert_eq!(ask_over_tcp(server, &query(web, TYPE::A)).await, "NoError 10.96.0.7");
    let srv = query("_sql._tcp.db.default.svc.cluster.local", TYPE::SRV);
    assert_eq!(
        ask(server, &srv).await,
        "NoError 10-244-0-4.db.default.svc.cluster.local:5432 db-0.db.default.svc.cluster.local:5432"
    );
    let near = query("near.default.svc.cluster.local", TYPE::A);
    assert_eq!(
        ask(server, &near).await,
        "NoError 10.96.0.7 near.default.svc.cluster.local is web.default.svc.cluster.local"
    );
    let missing = query("nobody.default.svc.cluster.local", TYPE::A);
    assert_eq!(ask(server, &missing).await, "NameError ");
    assert_eq!(ask(server, &query("example.com", TYPE::A)).await, "Refused ");
}

#[tokio::test]
async fn questions_of_both_families_are_answered_on_both() {
    let servers = started_on(&["127.0.0.1:0", "[::1]:0"], Vec::new()).await;
    let both = "both.default.svc.cluster.local";
    for server in servers {
        assert_eq!(ask(server, &query(both, TYPE::A)).await, "NoError 10.96.0.8");
        assert_eq!(ask(server, &query(both, TYPE::AAAA)).await, "NoError fd00:10:96::8");
        assert_eq!(ask_over_tcp(server, &query(both, TYPE::AAAA)).await, "NoError fd00:10:96::8");
        let pair = query("pair.default.svc.cluster.local", TYPE::AAAA);
        assert_eq!(ask(server, &pair).await, "NoError fd00:10:244::5 fd00:10:244::6");
    }
}

#[tokio::test]
async fn an_answer_too_large_for_udp_is_cut_and_whole_over_tcp() {
    let server = started(Vec::new()).await;
    let big = query("big.default.svc.cluster.local", TYPE::A);
    assert_eq!(ask(server, &big).await, "NoError cut ");
    assert_eq!(ask_over_tcp(server, &big).await.split(' ').count(), 201);
}

#[tokio::test]
async fn other_names_are_forwarded_once_and_then_remembered() {
    let (address, asked) = upstream().await;
    // The first server is silent: nobody listens there.
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = started(vec![silent, address]).await;
    for _ in 0..3 {
        assert_eq!(ask(server, &query("example.com", TYPE::A)).await, "NoError 192.0.2.1");
    }
    assert_eq!(*asked.borrow(), 1);
}

#[tokio::test]
async fn when_no_server_answers_the_client_is_told() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = started(vec![silent]).await;
    assert_eq!(ask(server, &query("example.com", TYPE::A)).await, "ServerFailure ");
}

#[tokio::test]
async fn nonsense_is_refused_and_the_server_goes_on() {
    let server = started(Vec::new()).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for nonsense in [&b""[..], b"x", &[0xff; 11], &[0xff; 600]] {
        socket.send_to(nonsense, server).await.unwrap();
    }
    let web = query("web.default.svc.cluster.local", TYPE::A);
    assert_eq!(ask(server, &web).await, "NoError 10.96.0.7");
}

/// The right answer to a query, with this address.
fn reply(query: &[u8], address: u32) -> Packet<'_> {
    let query = Packet::parse(query).unwrap();
    let name = query.questions[0].qname.clone();
    let mut reply = Packet::new_reply(query.id());
    reply.questions.clone_from(&query.questions);
    reply.answers.push(ResourceRecord::new(name, CLASS::IN, 300, RData::A(A { address })));
    reply
}

const LIE: u32 = 0x0606_0606;
const TRUTH: u32 = 0xc000_0201;

/// A name server beside which somebody forges answers: with other ids, for other questions, from
/// other ports. Only then does it answer itself. It counts the questions, and remembers their ids
/// and ports.
async fn forged_upstream() -> (SocketAddr, tokio::sync::watch::Receiver<Vec<(u16, u16)>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let forger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (seen, seen_rx) = tokio::sync::watch::channel(Vec::new());
    Tasks::new().spawn("upstream", |_| async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let query = &buffer[..length];
            let id = Packet::parse(query).unwrap().id();
            seen.send_modify(|it| it.push((id, from.port())));
            let lie = reply(query, LIE).build_bytes_vec().unwrap();
            forger.send_to(&lie, from).await.unwrap();
            let mut of_other_id = lie.clone();
            of_other_id[1] ^= 1;
            let mut of_other_name = lie.clone();
            of_other_name[13] ^= 1;
            let mut of_other_type = lie.clone();
            let end = query.len() - 3;
            of_other_type[end] ^= 1;
            for forged in [&of_other_id, &of_other_name, &of_other_type, query] {
                socket.send_to(forged, from).await.unwrap();
            }
            let truth = reply(query, TRUTH).build_bytes_vec().unwrap();
            socket.send_to(&truth, from).await.unwrap();
        }
    });
    (address, seen_rx)
}

#[tokio::test]
async fn forged_answers_are_neither_passed_on_nor_kept() {
    let (address, seen) = forged_upstream().await;
    let server = started(vec![address]).await;
    for round in 0..2 {
        for n in 0..20 {
            let query = query(&format!("host-{n}.example.com"), TYPE::A);
            assert_eq!(ask(server, &query).await, "NoError 192.0.2.1", "round {round}");
        }
    }
    // Each was asked once, with an id and a port of its own.
    let seen = seen.borrow().clone();
    assert_eq!(seen.len(), 20);
    let distinct = |of: fn(&(u16, u16)) -> u16| {
        seen.iter().map(of).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(distinct(|it| it.0) > 15 && distinct(|it| it.1) > 10, "{seen:?}");
}

#[tokio::test]
async fn what_is_cut_or_forged_too_often_is_asked_over_tcp() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let tasks = Tasks::new();
    tasks.spawn("udp", |_| async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let mut packet = reply(&buffer[..length], LIE);
            if packet.questions[0].qname.to_string().starts_with("large") {
                packet.set_flags(PacketFlag::TRUNCATION);
                socket.send_to(&packet.build_bytes_vec().unwrap(), from).await.unwrap();
                continue;
            }
            let mut forged = packet.build_bytes_vec().unwrap();
            for guess in 0..200 {
                forged[1] = forged[1].wrapping_add(if guess == 199 { 57 } else { 1 });
                let _ = socket.send_to(&forged, from).await;
            }
        }
    });
    tasks.spawn("tcp", |_| async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let length = stream.read_u16().await.unwrap();
            let mut query = vec![0; usize::from(length)];
            stream.read_exact(&mut query).await.unwrap();
            let mut packet = reply(&query, TRUTH);
            let record = packet.answers[0].clone();
            packet.answers.extend(vec![record; 99]);
            let bytes = packet.build_bytes_vec_compressed().unwrap();
            stream.write_all(&(bytes.len() as u16).to_be_bytes()).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        }
    });
    let server = started(vec![address]).await;
    for name in ["large.example.com", "forged.example.com"] {
        // It does not fit for this client either, who asks again.
        assert_eq!(ask(server, &query(name, TYPE::A)).await, "NoError cut ", "{name}");
        let whole = ask_over_tcp(server, &query(name, TYPE::A)).await;
        assert_eq!(whole.matches("192.0.2.1").count(), 100, "{name}: {whole}");
    }
}

/// Waiting copies of one question make its answer easier to guess.
#[tokio::test]
async fn a_question_is_on_its_way_once() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let server = started(vec![socket.local_addr().unwrap()]).await;
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for _ in 0..50 {
        client.send_to(&query("example.com", TYPE::A), server).await.unwrap();
    }
    client.send_to(&query("other.example.com", TYPE::A), server).await.unwrap();
    let mut buffer = [0; 512];
    let mut asked = Vec::new();
    while !asked.iter().any(|it: &String| it.starts_with("other")) {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let query = &buffer[..length];
        asked.push(Packet::parse(query).unwrap().questions[0].qname.to_string());
        if asked.last().is_some_and(|it| it.starts_with("other")) {
            continue;
        }
        tokio::task::yield_now().await;
        let truth = reply(query, TRUTH).build_bytes_vec().unwrap();
        socket.send_to(&truth, from).await.unwrap();
    }
    assert_eq!(asked.len(), 2, "{asked:?}");
    for _ in 0..50 {
        let length = client.recv(&mut buffer).await.unwrap();
        assert_eq!(render(&buffer[..length]), "NoError 192.0.2.1");
    }
}

#[tokio::test]
async fn a_connection_that_asks_nothing_does_not_keep_others_out() {
    let server = started(Vec::new()).await;
    let mut silent = Vec::new();
    let limit = linux::process::descriptor_limit() / 16;
    for _ in 0..limit.min(300) {
        silent.push(TcpStream::connect(server).await.unwrap());
    }
    let web = query("web.default.svc.cluster.local", TYPE::A);
    assert_eq!(ask_over_tcp(server, &web).await, "NoError 10.96.0.7");
}
