//! `cargo xtask bench extension`: what rules, policies, webhooks and definitions cost. With `--debug`
//! on the debug build and at a small scale, to see that it works; its figures mean nothing.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::up::{Cluster, wait};
use super::usage::{self, report};
use crate::process::{output, run};
use crate::say;

/// Validating hooks that are asked at once.
const HOOKS: usize = 8;
/// What one of them waits for; the others answer at once.
const SLOWEST: Duration = Duration::from_secs(1);
const POLICIES: usize = 50;

/// How much is done.
struct Scale {
    profile: &'static str,
    cargo: &'static [&'static str],
    definitions: usize,
    seconds: usize,
    calls: usize,
    idle: Duration,
}

const RELEASE: Scale = Scale {
    profile: "release",
    cargo: &["--release"],
    definitions: 1_000,
    seconds: 10,
    calls: 2_000,
    idle: Duration::from_secs(30),
};

const DEBUG: Scale = Scale {
    profile: "debug",
    cargo: &[],
    definitions: 20,
    seconds: 1,
    calls: 50,
    idle: Duration::from_secs(1),
};

pub(crate) fn measure(root: &Path, words: &[&str]) -> Result<()> {
    let scale = match words {
        [] => RELEASE,
        ["--debug"] => DEBUG,
        _ => bail!("only --debug can be given"),
    };
    let mut build = Command::new("cargo");
    build.arg("build").args(scale.cargo).args(["-p", "app", "-p", "client"]);
    run(build.args(["--bin", "xebec", "--example", "load"]).current_dir(root))?;
    expressions(root, &scale)?;
    let folder = root.join("target").join(scale.profile);
    let binary = folder.join("xebec");
    report("binary", fs::metadata(&binary)?.len() as f64 / 1_048_576.0, "MiB", 35.0);
    let bench = |cluster| Bench { cluster, load: folder.join("examples/load"), scale: &scale };
    let cluster = bench(Cluster::start(&binary, 0)?);
    cluster.idle("idle, without extensions")?;
    cluster.policies()?;
    cluster.rules()?;
    cluster.webhooks(&binary)?;
    drop(cluster);
    bench(Cluster::start(&binary, 0)?).definitions()
}

/// CEL alone, beside `kube-cel` in the same process.
fn expressions(root: &Path, scale: &Scale) -> Result<()> {
    let mut bench = Command::new("cargo");
    bench.args(["run", "-q"]).args(scale.cargo).args(["--example", "bench"]);
    bench.env("CARGO_TARGET_DIR", root.join("target/oracles"));
    run(bench.current_dir(root.join("crates/apimachinery/oracles")))
}

/// A server under load.
struct Bench<'s> {
    cluster: Cluster,
    load: PathBuf,
    scale: &'s Scale,
}

/// What a load found, and the server's CPU seconds meanwhile.
struct Found {
    result: Value,
    cpu: f64,
}

impl Found {
    fn number(&self, name: &str) -> f64 {
        self.result[name].as_f64().unwrap_or(f64::NAN)
    }

    /// Microseconds of the server for one operation.
    fn cpu_each(&self) -> f64 {
        self.cpu * 1e6 / self.number("operations")
    }
}

impl Bench<'_> {
    fn load(&self, words: &[&str]) -> Result<Found> {
        let before = usage::cpu_seconds(self.cluster.pid())?;
        let mut load = Command::new(&self.load);
        let text = output(load.arg(self.cluster.kubeconfig()).args(words))?;
        let cpu = usage::cpu_seconds(self.cluster.pid())? - before;
        let last = text.lines().last().context("a load says what it found")?;
        Ok(Found { result: serde_json::from_str(last)?, cpu })
    }

    fn kubectl(&self, words: &[&str]) -> Result<String> {
        let mut kubectl = Command::new("kubectl");
        output(kubectl.arg("--kubeconfig").arg(self.cluster.kubeconfig()).args(words))
    }

    /// Creates a list of objects.
    fn create(&self, name: &str, items: &[Value]) -> Result<()> {
        let path = self.cluster.directory().join(format!("{name}.json"));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        fs::write(&path, list.to_string())?;
        self.kubectl(&["create", "-f", &path.to_string_lossy()]).map(drop)
    }

    fn idle(&self, what: &str) -> Result<()> {
        std::thread::sleep(self.scale.idle);
        let before = usage::cpu_seconds(self.cluster.pid())?;
        std::thread::sleep(self.scale.idle);
        let cpu = usage::cpu_seconds(self.cluster.pid())? - before;
        let percent = cpu / self.scale.idle.as_secs_f64() * 100.0;
        let rss = usage::memory(self.cluster.pid(), "VmRSS")?;
        say(&format!("{what}: {percent:.2} % of a core, RSS {rss:.1} MiB"));
        Ok(())
    }

    fn seconds(&self) -> String {
        self.scale.seconds.to_string()
    }

    /// Policies about other resources: what looking for those that match costs.
    fn policies(&self) -> Result<()> {
        let seconds = self.seconds();
        let words = ["create", "16", seconds.as_str()];
        self.load(&words)?;
        let without = self.load(&words)?.cpu_each();
        let items: Vec<Value> = (0..POLICIES).flat_map(policy).collect();
        self.create("policies", &items)?;
        let with = self.load(&words)?.cpu_each();
        let what = format!("{POLICIES} policies that do not match, CPU per write");
        report(&what, with - without, "us", 2.0);
        say(&format!("  a write: {without:.1} us without, {with:.1} us with"));
        let kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings";
        self.kubectl(&["delete", kinds, "--all"]).map(drop)
    }

    /// A custom resource with ten rules beside a ConfigMap of its size.
    fn rules(&self) -> Result<()> {
        let seconds = self.seconds();
        let plain = self.load(&["create", "64", seconds.as_str()])?.number("per_second");
        let custom = self.load(&["custom", "64", seconds.as_str()])?.number("per_second");
        let ratio = custom / plain;
        let verdict = if ratio >= 0.8 { "within" } else { "UNDER" };
        say(&format!(
            "custom resources with ten rules: {custom} per second, ConfigMaps {plain}: {ratio:.2} ({verdict} the goal of 0.8)"
        ));
        Ok(())
    }

    fn webhooks(&self, binary: &Path) -> Result<()> {
        let hook = Hook::start(binary, self.cluster.directory())?;
        let calls = self.scale.calls.to_string();
        let words = ["single", calls.as_str()];
        self.load(&words)?;
        let without = self.load(&words)?;
        self.create("one", &[hook.configuration("one", &["allow".to_owned()])])?;
        let with = self.load(&words)?;
        let cpu = with.cpu_each() - without.cpu_each();
        report("a webhook that allows, CPU of the server per call", cpu, "us", 40.0);
        let (before, after) = (without.number("p50_ms"), with.number("p50_ms"));
        say(&format!("  a write takes {before:.2} ms without it, {after:.2} ms with it"));
        self.kubectl(&["delete", "validatingwebhookconfigurations", "--all"])?;
        let mut paths = vec!["allow".to_owned(); HOOKS - 1];
        paths.push(format!("delay/{}", SLOWEST.as_secs()));
        self.create("eight", &[hook.configuration("eight", &paths)])?;
        let eight = self.load(&["single", "3"])?.number("p50_ms");
        let what = format!("{HOOKS} validating webhooks, the slowest {} ms", SLOWEST.as_millis());
        report(&what, eight, "ms", SLOWEST.as_secs_f64() * 1_100.0);
        self.kubectl(&["delete", "validatingwebhookconfigurations", "--all"]).map(drop)
    }

    fn definitions(&self) -> Result<()> {
        self.idle("idle, before definitions")?;
        let before = usage::memory(self.cluster.pid(), "VmRSS")?;
        let count = self.scale.definitions;
        let found = self.load(&["definitions", &count.to_string()])?;
        let what = format!("{count} definitions of {} bytes, shown", found.number("bytes"));
        report(&what, found.number("shown_s"), "s", 5.0);
        let held = usage::memory(self.cluster.pid(), "VmRSS")? - before;
        report(&format!("{count} definitions, RSS beyond"), held, "MiB", 100.0);
        self.idle("idle, with definitions")
    }
}

/// A policy about Deployments with its binding.
fn policy(index: usize) -> [Value; 2] {
    let name = format!("policy-{index}");
    let api = "admissionregistration.k8s.io/v1";
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"],
    });
    [
        json!({
            "apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "object.spec.replicas <= 5"}],
            },
        }),
        json!({
            "apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

/// The webhook of the toolbox, as a process; ended when dropped.
struct Hook {
    child: Child,
    port: u16,
    authority: String,
}

impl Hook {
    fn start(binary: &Path, directory: &Path) -> Result<Self> {
        let (certificate, key) = (directory.join("hook.crt"), directory.join("hook.key"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-nodes", "-days", "1", "-subj", "/CN=hook"]);
        openssl.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
        // No server may be its own authority.
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        output(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // The binary is the toolbox when it is called so.
        let toolbox = directory.join("toolbox");
        std::os::unix::fs::symlink(binary, &toolbox)?;
        let child = Command::new(&toolbox)
            .args(["webhook", "--port", &port.to_string(), "--tls-cert-file"])
            .arg(&certificate)
            .arg("--tls-private-key-file")
            .arg(&key)
            .stdout(Stdio::null())
            .spawn()
            .context("starting the webhook")?;
        let mut base64 = Command::new("base64");
        let authority = output(base64.arg("-w0").arg(&certificate))?.trim().to_owned();
        let hook = Self { child, port, authority };
        wait(Duration::from_secs(10), || {
            Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        Ok(hook)
    }

    /// Hooks on ConfigMaps, one for each path.
    fn configuration(&self, name: &str, paths: &[String]) -> Value {
        let hooks = paths.iter().enumerate().map(|(index, path)| {
            json!({
                "name": format!("h{index}.{name}.example.com"),
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/{path}", self.port),
                    "caBundle": self.authority,
                },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "load"}},
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
            })
        });
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": hooks.collect::<Vec<_>>(),
        })
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
