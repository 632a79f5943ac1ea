//! A second API server over the first one's etcd, on a machine of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::cluster::{Cluster, Ran, ran};
use crate::host::{self, NODE};

/// Of the second server, and of the node on the cable to it.
pub(crate) const SECOND: &str = "198.51.100.2";
const NODE_BESIDE: &str = "198.51.100.1";

/// Debian's etcd on the machine of the first server. Ends when the test does.
pub(crate) struct Etcd(Child);

impl Etcd {
    pub(crate) fn start(cluster: &Cluster) -> Option<Self> {
        let program =
            std::env::var_os("XEBEC_TEST_ETCD").map_or_else(|| "etcd".into(), PathBuf::from);
        if Command::new(&program).arg("--version").output().is_err() {
            eprintln!("SKIPPED: no etcd on this machine");
            return None;
        }
        let log = File::create(cluster.path("etcd.log")).unwrap();
        let child = cluster
            .host
            .command(&program)
            .arg("--data-dir")
            .arg(cluster.path("etcd"))
            .args(["--listen-client-urls", "http://0.0.0.0:2379"])
            .args(["--advertise-client-urls", &Self::url()])
            .args(["--listen-peer-urls", "http://127.0.0.1:2380"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let etcd = Self(child);
        let connect = format!("exec 3<>/dev/tcp/{NODE}/2379");
        let is_there = (0..300).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            cluster.host.command("bash").args(["-c", &connect]).output().unwrap().status.success()
        });
        assert!(is_there, "{}", std::fs::read_to_string(cluster.path("etcd.log")).unwrap());
        Some(etcd)
    }

    pub(crate) fn url() -> String {
        format!("http://{NODE}:2379")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// It has the first one's certificates: to clients they are one cluster.
pub(crate) struct Second {
    machine: Child,
    server: Child,
}

impl Second {
    /// Returns when it is ready.
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let machine = host::namespace();
        cluster.host.join(&machine, "eth1", (NODE_BESIDE, SECOND));
        let on = |words: &[&str]| host::ok(&mut host::inside(&machine, words[0]), words);
        on(&["ip", "route", "add", "default", "via", NODE_BESIDE]);
        let data = cluster.path("second");
        std::fs::create_dir(&data).unwrap();
        let kept = [cluster.path("data/pki"), cluster.path("data/xebec-format")];
        let copied = Command::new("cp").arg("-a").args(kept).arg(&data).status();
        assert!(copied.unwrap().success());
        let log = File::create(cluster.path("second.log")).unwrap();
        let mut server = host::inside(&machine, env!("CARGO_BIN_EXE_xebec"))
            .args(["up", "--node", "none", "--bind-address", SECOND, "-v", "2", "--data-dir"])
            .arg(&data)
            .args(["--datastore-endpoint", &Etcd::url()])
            .args(["--pod-cidr", "10.244.0.0/16", "--service-cidr", "10.96.0.0/16"])
            .env("KUBECONFIG", cluster.path("second-kubeconfig"))
            .env("XEBEC_REGISTRY", cluster.path("second-clusters"))
            .env("HOME", cluster.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let is_ready =
            lines.by_ref().map_while(Result::ok).any(|it| it.contains("Your cluster is ready"));
        let log = || std::fs::read_to_string(cluster.path("second.log")).unwrap_or_default();
        assert!(is_ready, "the second server is not ready:\n{}", log());
        std::thread::spawn(move || lines.for_each(drop));
        Self { machine, server }
    }

    /// kubectl as its administrator, beside it.
    pub(crate) fn kubectl(&self, cluster: &Cluster, words: &[&str]) -> Ran {
        let mut command = host::inside(&self.machine, cluster.kubectl());
        command.args(words).env("KUBECONFIG", cluster.path("second/kubeconfig"));
        ran(command.env("HOME", cluster.path("")).stdin(Stdio::null()).output().unwrap())
    }

    /// Bounded, and says what it said last.
    pub(crate) fn until(
        &self,
        cluster: &Cluster,
        words: &[&str],
        is_right: impl Fn(&str) -> bool,
    ) -> String {
        let mut last = String::new();
        for _ in 0..900 {
            let Ran { stdout, stderr, .. } = self.kubectl(cluster, words);
            last = stdout + &stderr;
            if is_right(&last) {
                return last;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("kubectl {words:?} never became right; last:\n{last}");
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.machine] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
