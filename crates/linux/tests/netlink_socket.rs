//! Netlink sockets on a real kernel: each test has a network namespace of its own.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use linux::netlink::message::flags;
use linux::netlink::{Family, Message, Socket};
use linux::network_namespace::NetworkNamespace;
use rustix::io::Errno;

const RTM_GETLINK: u16 = 18;
const RTM_DELLINK: u16 = 17;
const IFLA_IFNAME: u16 = 3;
/// Length of `struct ifinfomsg`.
const LINK: usize = 16;

const NFT_MSG_NEWTABLE: u16 = 10 << 8;
const NFT_MSG_GETTABLE: u16 = (10 << 8) + 1;
const NFT_MSG_DELTABLE: u16 = (10 << 8) + 2;
const NFTA_TABLE_NAME: u16 = 1;
const IPV4: [u8; 4] = [2, 0, 0, 0];

fn namespace() -> Option<NetworkNamespace> {
    match NetworkNamespace::create() {
        Ok(namespace) => Some(namespace),
        Err(err) => {
            eprintln!("SKIPPED: {err}: {}", err.source);
            None
        }
    }
}

fn add_table(name: &str) -> Message {
    Message::new(format!("add table {name}"), NFT_MSG_NEWTABLE, flags::CREATE, &IPV4).with(|it| {
        it.string(NFTA_TABLE_NAME, name);
    })
}

fn delete_table(name: &str) -> Message {
    Message::new(format!("delete table {name}"), NFT_MSG_DELTABLE, 0, &IPV4).with(|it| {
        it.string(NFTA_TABLE_NAME, name);
    })
}

fn tables(socket: &mut Socket) -> Vec<String> {
    let message = Message::new("list tables", NFT_MSG_GETTABLE, 0, &IPV4);
    let replies = socket.dump(&message).unwrap();
    let name = |it: &linux::netlink::Reply| {
        it.attributes(4).find_kind(NFTA_TABLE_NAME).unwrap().string().unwrap().to_owned()
    };
    replies.iter().map(name).collect()
}

#[test]
fn a_socket_stays_in_its_namespace() {
    let Some(namespace) = namespace() else { return };
    let mut socket = Socket::open_in(Family::Route, &namespace.path()).unwrap();
    let links = socket.dump(&Message::new("list links", RTM_GETLINK, 0, &[0; LINK])).unwrap();
    let name = |it: &linux::netlink::Reply| {
        it.attributes(LINK).find_kind(IFLA_IFNAME).unwrap().string().unwrap().to_owned()
    };
    let names: Vec<_> = links.iter().map(name).collect();
    assert_eq!(names.iter().filter(|it| *it == "lo").count(), 1);
    assert!(!names.iter().any(|it| it.starts_with("eth")), "{names:?}");
}

#[test]
fn one_object_is_asked_for_without_a_dump() {
    let Some(namespace) = namespace() else { return };
    let mut socket = Socket::open_in(Family::Route, &namespace.path()).unwrap();
    let get = |name: &'static str| {
        Message::new(format!("get link {name}"), RTM_GETLINK, 0, &[0; LINK]).with(|it| {
            it.string(IFLA_IFNAME, name);
        })
    };
    assert_eq!(socket.ask(&get("lo")).unwrap().unwrap().u32_at(4), Some(1));
    let err = socket.ask(&get("none")).unwrap_err();
    assert!(err.is(Errno::NODEV), "{err:?}");
    assert_eq!(err.to_string(), "get link none");
    // The socket is as good as new after a refusal.
    assert_eq!(socket.ask(&get("lo")).unwrap().unwrap().u32_at(4), Some(1));
}

#[test]
fn a_refusal_carries_the_words_of_the_kernel() {
    let Some(namespace) = namespace() else { return };
    let mut socket = Socket::open_in(Family::Route, &namespace.path()).unwrap();
    let mut index_1 = [0; LINK];
    index_1[4] = 1;
    let delete = Message::new("delete link lo", RTM_DELLINK, 0, &index_1);
    let err = socket.request(&delete).unwrap_err();
    assert!(err.is(Errno::OPNOTSUPP), "{err:?}");
    // A length that cannot be: the kernel explains.
    let bad = Message::new("get a bad link", RTM_GETLINK, 0, &[0; LINK]).with(|it| {
        it.bytes(IFLA_IFNAME, &[b'x'; 99]);
    });
    let err = socket.request(&bad).unwrap_err();
    assert!(err.to_string().starts_with("get a bad link ("), "{err}");
}

#[test]
fn a_batch_is_all_or_nothing_and_a_refusal_names_its_message() {
    let Some(namespace) = namespace() else { return };
    let mut socket = Socket::open_in(Family::Netfilter, &namespace.path()).unwrap();
    socket.batch(&[add_table("one"), add_table("two")], None).unwrap();
    assert_eq!(tables(&mut socket), ["one", "two"]);
    let batch = [add_table("three"), delete_table("none"), add_table("four")];
    let err = socket.batch(&batch, None).unwrap_err();
    assert!(err.is(Errno::NOENT), "{err:?}");
    assert_eq!(err.to_string(), "delete table none");
    assert_eq!(tables(&mut socket), ["one", "two"]);
    socket.batch(&[delete_table("one"), delete_table("two")], None).unwrap();
    assert_eq!(tables(&mut socket), Vec::<String>::new());
    socket.batch(&[], None).unwrap();
}

#[test]
fn a_batch_for_an_older_generation_is_refused() {
    let Some(namespace) = namespace() else { return };
    let mut socket = Socket::open_in(Family::Netfilter, &namespace.path()).unwrap();
    let err = socket.batch(&[add_table("one")], Some(4711)).unwrap_err();
    assert!(err.is(Errno::from_raw_os_error(85)), "ERESTART: {err:?}");
    assert_eq!(tables(&mut socket), Vec::<String>::new());
}

#[test]
fn a_batch_of_thousands_is_sent_and_read_back() {
    let Some(namespace) = namespace() else { return };
    let mut socket = Socket::open_in(Family::Netfilter, &namespace.path()).unwrap();
    let batch: Vec<_> = (0..4000).map(|it| add_table(&format!("table-{it}"))).collect();
    socket.batch(&batch, None).unwrap();
    assert_eq!(tables(&mut socket).len(), 4000);
    let missing: Vec<_> = (0..4000).map(|it| delete_table(&format!("none-{it}"))).collect();
    let err = socket.batch(&missing, None).unwrap_err();
    assert!(err.is(Errno::NOENT), "{err:?}");
    assert_eq!(err.to_string(), "delete table none-0");
    assert_eq!(tables(&mut socket).len(), 4000);
}
