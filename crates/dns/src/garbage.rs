//! What any bytes do to those who read DNS messages: each function takes some, and panics if a
//! reader does or breaks its law. The fuzz targets call them, and the test suite does with random
//! bytes.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use simple_dns::Packet;
use stdx::Random;
use tokio::time::Instant;

use crate::answer::{Answer, Answerer};
use crate::cache::Cache;
use crate::forward::{Forwarder, Way};
use crate::wire;
use crate::zone::{ServiceKind, ServiceNames, Source, Zone};

/// One namespace with one Service, which is an alias of itself.
struct Tiny;

impl Source for Tiny {
    fn has_namespace(&self, namespace: &str) -> bool {
        namespace == "a"
    }

    fn service(&self, namespace: &str, name: &str) -> Option<ServiceNames> {
        let kind = ServiceKind::External("a.a.svc.c".to_owned());
        (namespace == "a" && name == "a").then(|| ServiceNames { kind, ports: Vec::new() })
    }

    fn service_at(&self, _: IpAddr) -> Option<(String, String)> {
        None
    }

    fn endpoint_at(&self, _: IpAddr) -> Option<(String, String, String)> {
        None
    }
}

/// A query from a client: whatever is answered is a message with the query's id, and no longer than
/// the client can take.
pub fn query(bytes: &[u8]) {
    let random = Random::from_seed(1);
    let forwarder = Forwarder::new(Vec::new(), random.clone());
    let answerer = Answerer::new(Zone::new("c"), Arc::new(Tiny), forwarder, random);
    for (way, size_max) in [(Way::Udp, 1_232), (Way::Tcp, 65_535)] {
        if let Some(Answer::Ready(reply)) = answerer.answer(bytes, way) {
            assert!(reply.len() <= size_max.max(bytes.len()), "{}", reply.len());
            let read = Packet::parse(&reply).expect("what we say makes sense");
            assert_eq!(Some(read.id()), wire::id(bytes));
        }
    }
}

/// What a name server answers; the first byte says where the query ends.
pub fn answer(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let (query, answer) = rest.split_at(rest.len().min(usize::from(*length)));
    let is_answer = wire::is_answer_to(answer, query);
    let now = Instant::now();
    if let Some(cut) = wire::cut(answer) {
        assert!(cut.len() <= answer.len());
        assert_eq!(is_answer, wire::is_answer_to(&cut, query));
    }
    let Some(subject) = wire::subject(query) else { return };
    let mut cache = Cache::default();
    cache.insert(subject.clone(), Bytes::copy_from_slice(answer), now);
    if let Some(kept) = cache.get(&subject, 7, now) {
        assert_eq!((kept.len(), wire::id(&kept)), (answer.len(), Some(7)));
    }
}
