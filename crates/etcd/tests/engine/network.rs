//! Three members, each in a network namespace of its own, joined by two bridges: one for clients,
//! one for peers. The test itself runs again inside of a namespace that has the bridges, so that
//! nothing of this is seen outside, and all of it ends with its processes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::member::{Member, directory};

const INSIDE: &str = "XEBEC_TEST_INSIDE";

/// Runs the test `name` again in a namespace of its own. Returns true there, where the test is to
/// go on.
pub(crate) fn enter(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    let is_root = Path::new("/proc/self/fd").metadata().is_ok_and(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid() == 0
    });
    if !is_root {
        command.arg("--map-root-user");
    }
    let test = std::env::current_exe().unwrap();
    let output = command
        .arg("--net")
        .arg(test)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        println!("SKIPPED: no unshare(1) here");
        return false;
    };
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.starts_with("unshare: ") {
        println!("SKIPPED: no network namespaces here: {errors}");
        return false;
    }
    println!("{errors}");
    assert!(output.status.success(), "the test inside failed: {}", output.status);
    false
}

/// Which of a member's two cables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cable {
    Clients,
    Peers,
}

pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    /// How often each was started: the names of cables are not used twice.
    starts: Vec<usize>,
}

fn ip(arguments: &[&str], lines: &str) -> bool {
    let (program, arguments) = arguments.split_first().unwrap();
    let mut child = Command::new(program)
        .args(arguments)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait().unwrap().success()
}

fn client_address(n: usize) -> String {
    format!("10.99.0.{}", n + 1)
}

fn peer_address(n: usize) -> String {
    format!("10.98.0.{}", n + 1)
}

impl Cluster {
    /// `None` after saying why, where there are no bridges.
    pub(crate) fn start(program: &Path) -> Option<Self> {
        let bridges = "link set lo up\n\
            link add clients type bridge\nlink set clients up\naddr add 10.99.0.254/24 dev clients\n\
            link add peers type bridge\nlink set peers up\n";
        if !ip(&["ip"], bridges) {
            println!("SKIPPED: no bridges here");
            return None;
        }
        let members = (0..3).map(|it| member(program, it)).collect();
        let mut cluster = Self { members, starts: vec![0; 3] };
        (0..3).for_each(|it| cluster.run(it));
        cluster.members.iter_mut().for_each(Member::await_ready);
        Some(cluster)
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.members.iter().map(|it| it.client_url.clone()).collect()
    }

    /// Starts a member on what data it has, does not wait until it serves.
    pub(crate) fn run(&mut self, n: usize) {
        let id = self.members[n].run();
        let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{id}/ns/net");
        for _ in 0..1000 {
            if std::fs::read_link(&theirs).is_ok_and(|it| it != ours) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.starts[n] += 1;
        let (c, p) = (self.cable(n, Cable::Clients), self.cable(n, Cable::Peers));
        // The same hardware addresses each time: neighbors remember them.
        let mac = |net: &str| format!("address 02:00:00:00:{net}:{:02x}", n + 1);
        let cables = format!(
            "link add {c} type veth peer name eth0 {} netns {id}\nlink set {c} master clients up\n\
             link add {p} type veth peer name eth1 {} netns {id}\nlink set {p} master peers up\n",
            mac("0c"),
            mac("0d"),
        );
        assert!(ip(&["ip"], &cables));
        let addresses = format!(
            "link set lo up\naddr add {}/24 dev eth0\nlink set eth0 up\n\
             addr add {}/24 dev eth1\nlink set eth1 up\n",
            client_address(n),
            peer_address(n),
        );
        assert!(ip(&["nsenter", "-t", &id.to_string(), "-n", "ip"], &addresses));
        // It waits for this line.
        let stdin = self.members[n].child().stdin.as_mut().unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    fn cable(&self, n: usize, cable: Cable) -> String {
        let kind = match cable {
            Cable::Clients => 'c',
            Cable::Peers => 'p',
        };
        format!("{kind}{n}n{}", self.starts[n])
    }

    fn set(&self, n: usize, cables: &[Cable], state: &str) {
        let line = |it: &Cable| format!("link set {} {state}\n", self.cable(n, *it));
        assert!(ip(&["ip"], &cables.iter().map(line).collect::<String>()));
    }

    /// What is sent just vanishes.
    pub(crate) fn cut(&self, n: usize, cables: &[Cable]) {
        self.set(n, cables, "down");
    }

    pub(crate) fn join(&self, n: usize, cables: &[Cable]) {
        self.set(n, cables, "up");
    }

    /// The one that its log says has become leader last. `None` while there is none in sight.
    pub(crate) fn leader(&self, etcdctl: &Path) -> Option<usize> {
        let output = Command::new(etcdctl)
            .args(["--endpoints", &self.urls().join(",")])
            .args(["--command-timeout", "2s", "endpoint", "status", "--write-out", "json"])
            .env("ETCDCTL_API", "3")
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // `"Endpoint":"URL","Status":{"header":{..,"member_id":N,..},..,"leader":N,..}`
        let field = |text: &str, name: &str| -> Option<u64> {
            let (_, rest) = text.split_once(&format!("\"{name}\":"))?;
            rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
        };
        self.members.iter().position(|member| {
            let status = text.split_once(&format!("\"{}\"", member.client_url));
            status.is_some_and(|(_, rest)| {
                let id = field(rest, "member_id");
                id.is_some() && id == field(rest, "leader")
            })
        })
    }
}

fn member(program: &Path, n: usize) -> Member {
    let data = directory();
    let folder = data.path().join("data");
    let clients = format!("http://{}:2379", client_address(n));
    let peers = format!("http://{}:2380", peer_address(n));
    let all: Vec<_> = (0..3).map(|it| format!("m{it}=http://{}:2380", peer_address(it))).collect();
    let all = all.join(",");
    let (program, client_url) = (program.to_owned(), clients.clone());
    let command = move || {
        let mut command = Command::new("unshare");
        command
            .args(["--net", "sh", "-c", "read _; exec \"$@\"", "sh"])
            .arg(&program)
            .args(["--name", &format!("m{n}"), "--heartbeat-interval", "50"])
            .args(["--election-timeout", "500"])
            .arg("--data-dir")
            .arg(&folder)
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &all]);
        command
    };
    Member::new(client_url, data, Box::new(command))
}
