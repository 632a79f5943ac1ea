//! Certificates over restarts and over years.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use authn::pki::{Identity, Rotating};
use jiff::{SignedDuration, Timestamp};
use lifecycle::Tasks;
use stdx::{Clock, Random, World};

use super::Pki;
use super::leaf::{Leaf, Purpose, read_pair};
use super::renewal::{renew, time_left};
use crate::server_names::Subjects;

const DAY: i64 = 24 * 3600;

struct SetClock(Mutex<Timestamp>);

impl SetClock {
    fn advance(&self, seconds: i64) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

fn world() -> (World, Arc<SetClock>) {
    let clock = Arc::new(SetClock(Mutex::new(Timestamp::from_second(1_767_225_600).unwrap())));
    (World { clock: clock.clone(), random: Random::from_seed(1) }, clock)
}

fn subjects(address: [u8; 4]) -> Subjects {
    let addresses = vec![IpAddr::V4(Ipv4Addr::from(address))];
    Subjects { names: vec!["localhost".to_owned()], addresses }
}

fn stored(folder: &Path) -> Identity {
    read_pair(folder, "apiserver").unwrap().unwrap()
}

#[tokio::test]
async fn a_serving_certificate_stays_until_its_addresses_change() {
    let folder = tempfile::tempdir().unwrap();
    let ((world, _), tasks) = (world(), Tasks::new());
    let start = |address| {
        let pki = Pki::load_or_create(folder.path(), &world).unwrap();
        pki.server(subjects(address), &tasks).unwrap();
        stored(folder.path()).certificate_pem
    };
    let first = start([127, 0, 0, 1]);
    assert_eq!(start([127, 0, 0, 1]), first);
    let second = start([192, 0, 2, 1]);
    assert_ne!(second, first);
    assert_eq!(start([192, 0, 2, 1]), second);
}

#[test]
fn a_certificate_is_renewed_thirty_days_before_its_end() {
    let now = Timestamp::from_second(1_767_225_600).unwrap();
    let after = |seconds: i64| now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    assert_eq!(time_left(after(31 * DAY), now), Some(Duration::from_secs(DAY as u64)));
    assert_eq!(time_left(after(30 * DAY + 1), now), Some(Duration::from_secs(1)));
    assert_eq!(time_left(after(30 * DAY), now), None);
    assert_eq!(time_left(after(-DAY), now), None);
}

/// Three years without a restart: what is shown is always what is on disk, and always good for a
/// month.
#[test]
fn a_serving_certificate_is_renewed_while_it_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (world, clock) = world();
    let cabinet = Pki::load_or_create(folder.path(), &world).unwrap().cabinet;
    let purpose =
        Purpose::Server { common_name: "server".to_owned(), subjects: subjects([127, 0, 0, 1]) };
    let leaf = Leaf { file: "apiserver".to_owned(), purpose };
    let first = cabinet.load_or_issue(&leaf).unwrap();
    let (shown, mut end) = (Rotating::new(&first).unwrap(), first.not_after().unwrap());
    let mut n_renewals = 0;
    for _ in 0..3 * 365 {
        clock.advance(DAY);
        if time_left(end, clock.now()).is_none() {
            end = renew(&cabinet, &leaf, &shown).unwrap();
            n_renewals += 1;
        }
        assert!(end.duration_since(clock.now()).as_hours() > 29 * 24);
        let stored = Rotating::new(&stored(folder.path())).unwrap();
        assert_eq!(shown.certificate(), stored.certificate());
    }
    assert_eq!(n_renewals, 3);
}
