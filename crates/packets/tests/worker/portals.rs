//! Connections and datagrams through a worker, over the loopback of a namespace.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use packets::{Portal, Protocol};

use crate::bed::Bed;

const PATIENCE: Duration = Duration::from_secs(10);
const LOCAL: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

fn portal(address: IpAddr, protocol: Protocol, endpoints: &[SocketAddr]) -> Portal {
    Portal {
        id: "web".to_owned(),
        address,
        protocol,
        endpoints: endpoints.to_vec(),
        serving: Vec::new(),
        affinity: None,
    }
}

/// Says its letter, then all that it hears.
fn serve(bed: &Bed, address: IpAddr, letter: u8) -> SocketAddr {
    let listener = bed.namespace.run(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                stream.write_all(&[letter]).unwrap();
                let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
            });
        }
    });
    at
}

fn connect(bed: &Bed, to: SocketAddr) -> std::io::Result<(TcpStream, u8)> {
    let mut stream = bed.namespace.run(|| TcpStream::connect(to)).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut letter = [0];
    stream.read_exact(&mut letter)?;
    Ok((stream, letter[0]))
}

pub(crate) fn connections_take_turns_and_arrive_whole() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    for address in LOCAL {
        let endpoints = [b'a', b'b', b'c'].map(|it| serve(&bed, address, it));
        let port = worker.open_portal(&portal(address, Protocol::Tcp, &endpoints)).unwrap();
        let to = SocketAddr::new(address, port);
        let letters: Vec<u8> = (0..6).map(|_| connect(&bed, to).unwrap().1).collect();
        assert_eq!(letters, b"abcabc");
        let (mut stream, _) = connect(&bed, to).unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 251) as u8).collect();
        let (mut writer, whole) = (stream.try_clone().unwrap(), sent.clone());
        let writing = thread::spawn(move || {
            writer.write_all(&whole).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        writing.join().unwrap();
        assert!(heard == sent, "{} of {} bytes", heard.len(), sent.len());
    }
}

pub(crate) fn a_connection_outlives_its_portal_and_its_node() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    let endpoint = serve(&bed, LOCAL[0], b'a');
    let port = worker.open_portal(&portal(LOCAL[0], Protocol::Tcp, &[endpoint])).unwrap();
    let to = SocketAddr::new(LOCAL[0], port);
    let (mut stream, _) = connect(&bed, to).unwrap();
    let pid = bed.pid();
    worker.close_portal("web").unwrap();
    drop(worker);
    let mut check = || {
        stream.write_all(b"x").unwrap();
        let mut heard = [0];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard, *b"x");
    };
    check();
    let refused = connect(&bed, to).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let _worker = bed.worker();
    assert_eq!(bed.pid(), pid);
    check();
}

pub(crate) fn an_endpoint_that_refuses_is_passed_over() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    let good = serve(&bed, LOCAL[0], b'a');
    let nobody = SocketAddr::new(LOCAL[0], 1);
    let port = worker.open_portal(&portal(LOCAL[0], Protocol::Tcp, &[nobody, good])).unwrap();
    for _ in 0..4 {
        assert_eq!(connect(&bed, SocketAddr::new(LOCAL[0], port)).unwrap().1, b'a');
    }
}

pub(crate) fn a_client_whose_endpoints_all_refuse_is_reset() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    let nobodys = [1, 2].map(|it| SocketAddr::new(LOCAL[0], it));
    let port = worker.open_portal(&portal(LOCAL[0], Protocol::Tcp, &nobodys)).unwrap();
    let refused = connect(&bed, SocketAddr::new(LOCAL[0], port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionReset);
}

pub(crate) fn datagrams_go_and_come_back() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    for address in LOCAL {
        let endpoints = [b'a', b'b'].map(|letter| {
            let socket = bed.namespace.run(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
            let at = socket.local_addr().unwrap();
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    buffer[length] = letter;
                    socket.send_to(&buffer[..=length], from).unwrap();
                }
            });
            at
        });
        let mut wanted = portal(address, Protocol::Udp, &endpoints);
        let port = worker.open_portal(&wanted).unwrap();
        let client = || {
            let socket = bed.namespace.run(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
            socket.connect((address, port)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        let ask = |socket: &UdpSocket, length: usize| {
            socket.send(&vec![7; length]).unwrap();
            let mut buffer = vec![0; 65_536];
            let heard = socket.recv(&mut buffer).unwrap();
            assert_eq!(heard, length + 1);
            buffer[heard - 1]
        };
        let (one, other) = (client(), client());
        assert_eq!((ask(&one, 0), ask(&other, 1)), (b'a', b'b'));
        // While they speak they stay; but not with one that is gone.
        assert_eq!((ask(&other, 40_000), ask(&one, 1500)), (b'b', b'a'));
        wanted.endpoints.remove(0);
        assert_eq!(worker.open_portal(&wanted).unwrap(), port);
        assert_eq!((ask(&one, 3), ask(&other, 3)), (b'b', b'b'));
    }
}

pub(crate) fn portals_that_are_not_named_are_closed() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    let endpoint = serve(&bed, LOCAL[0], b'a');
    let of =
        |id: &str| Portal { id: id.to_owned(), ..portal(LOCAL[0], Protocol::Tcp, &[endpoint]) };
    let ports = ["one", "two"].map(|it| worker.open_portal(&of(it)).unwrap());
    worker.begin_portals().unwrap();
    assert_eq!(worker.open_portal(&of("two")).unwrap(), ports[1]);
    worker.end_portals().unwrap();
    let answers = ports.map(|it| connect(&bed, SocketAddr::new(LOCAL[0], it)).is_ok());
    assert_eq!(answers, [false, true]);
}
