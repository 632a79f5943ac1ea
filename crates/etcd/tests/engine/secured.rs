//! TLS with a CA of our own, client certificates, and users with passwords.

use std::path::{Path, PathBuf};
use std::process::Command;

use etcd::engine::{Config, ConnectError, Credentials, Etcd};
use etcd::wire::tls::Identity;
use kvstore::{KeyRange, Op, Store as _, Txn, WatchRequest};
use lifecycle::Tasks;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use stdx::World;
use tempfile::TempDir;

use crate::member::{Member, etcd, program};
use crate::{config, connect, value};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn issue(&self) -> Identity {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        // The member's address is chosen later: all that a test process can have.
        let pid = std::process::id();
        for n in 1..=254 {
            let address = [127, (pid >> 8) as u8, pid as u8, n];
            params.subject_alt_names.push(SanType::IpAddress(address.into()));
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate_pem: certificate.pem().into_bytes(),
            key_pem: key.serialize_pem().into_bytes(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, program: &Path) -> Member {
        let server = self.issue();
        std::fs::write(self.path("server.pem"), &server.certificate_pem).unwrap();
        std::fs::write(self.path("server.key"), &server.key_pem).unwrap();
        let path = |it: &str| self.path(it).to_str().unwrap().to_owned();
        let arguments = [
            "--cert-file".to_owned(),
            path("server.pem"),
            "--key-file".to_owned(),
            path("server.key"),
            "--client-cert-auth".to_owned(),
            "--trusted-ca-file".to_owned(),
            path("ca.pem"),
        ];
        Member::start_with(program, "https", &arguments)
    }
}

async fn refuse(config: Config) -> ConnectError {
    let mut config = config;
    config.limits.timeout_request = std::time::Duration::from_secs(1);
    match Etcd::connect(config, &World::system(), &Tasks::new()).await {
        Ok(_) => panic!("it should be refused"),
        Err(err) => err,
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_the_servers_is_checked() {
    let Some(program) = etcd() else { return };
    let authority = Authority::new();
    let member = authority.start(&program);
    let mut config = config(&[&member.client_url]);
    config.ca_pem = Some(authority.issuer.pem().into_bytes());
    refuse(config.clone()).await;
    config.identity = Some(authority.issue());
    let engine = connect(config.clone()).await;
    engine.txn(Txn::of(vec![Op::put("a", "1")])).await.unwrap();
    assert_eq!(value(&*engine, "a").await.as_deref(), Some("1"));
    config.ca_pem = Some(Authority::new().issuer.pem().into_bytes());
    let refused = stdx::error_chain(&refuse(config).await).to_string();
    assert!(refused.contains("certificate"), "{refused}");
}

fn etcdctl(member: &Member, etcdctl: &Path, words: &str) {
    let status = Command::new(etcdctl)
        .args(["--endpoints", &member.client_url])
        .args(words.split(' '))
        .env("ETCDCTL_API", "3")
        .output()
        .unwrap();
    assert!(status.status.success(), "{words}: {}", String::from_utf8_lossy(&status.stderr));
}

#[tokio::test]
async fn a_password_is_shown_again_when_the_token_is_gone() {
    let Some(program_etcd) = etcd() else { return };
    let Some(ctl) = program("etcdctl", "XEBEC_TEST_ETCDCTL") else { return };
    let arguments = ["--auth-token-ttl".to_owned(), "1".to_owned()];
    let mut member = Member::start_with(&program_etcd, "http", &arguments);
    etcdctl(&member, &ctl, "user add root:secret");
    etcdctl(&member, &ctl, "user grant-role root root");
    let mut config = config(&[&member.client_url]);
    config.credentials =
        Some(Credentials { user: "root".to_owned(), password: "secret".to_owned() });
    // Connected before authentication is turned on, as when a user turns it on later.
    let early = connect(config.clone()).await;
    etcdctl(&member, &ctl, "auth enable");
    early.txn(Txn::of(vec![Op::put("a", "1")])).await.unwrap();
    let engine = connect(config.clone()).await;
    engine.txn(Txn::of(vec![Op::put("a", "2")])).await.unwrap();
    // One that does nothing but watch has to ask for a new token too.
    let quiet = connect(config.clone()).await;
    let request = WatchRequest::new(KeyRange::prefix(b"a"), None);
    let mut watch = quiet.watch(request).await.unwrap();
    // A member that was started again knows no tokens.
    member.run();
    member.await_ready();
    assert_eq!(value(&*engine, "a").await.as_deref(), Some("2"));
    early.txn(Txn::of(vec![Op::put("a", "3")])).await.unwrap();
    let batch = watch.next().await.unwrap();
    assert_eq!(batch.events[0].value.as_ref().unwrap().value, "3");
    config.credentials = None;
    refuse(config).await;
}
