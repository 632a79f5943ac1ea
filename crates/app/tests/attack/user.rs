//! Somebody with few rights: a service account, the rules that it was given, and curl with its
//! token.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::control_plane::Cluster;

pub(crate) struct User {
    token: String,
    server: String,
    authority: PathBuf,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
}

impl User {
    /// A service account of the namespace, bound there to a role with these rules, such as
    /// `{apiGroups: [""], resources: [pods], verbs: [patch]}`. The namespace must be there.
    pub(crate) fn new(cluster: &Cluster, namespace: &str, name: &str, rules: &[&str]) -> Self {
        cluster.ok(&["create", "serviceaccount", name, "-n", namespace]);
        let meta = format!("{{name: {name}, namespace: {namespace}}}");
        let rules = rules.join(", ");
        let manifest = format!(
            "---\n{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {meta}, rules: [{rules}]}}\n\
             ---\n{{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {meta}, \
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}, \
             subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]}}\n"
        );
        let path = cluster.file(&format!("{name}.yaml"), &manifest);
        cluster.ok(&["apply", "-f", &path]);
        Self {
            token: cluster.ok(&["create", "token", name, "-n", namespace]).trim().to_owned(),
            server: cluster.server(),
            authority: cluster.path("data/pki/ca.crt"),
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// curl with more arguments, such as `-X`, `-H` and `-d`; the path is sent as it is.
    pub(crate) fn curl(&self, path: &str, arguments: &[&str]) -> Answer {
        let output = Command::new("curl")
            .args(["-sS", "--path-as-is", "--max-time", "60", "-w", "\n%{http_code}"])
            // What comes for people is indented.
            .args(["-A", "attacker", "-H"])
            .arg(format!("Authorization: Bearer {}", self.token))
            .arg("--cacert")
            .arg(&self.authority)
            .args(arguments)
            .arg(format!("{}{path}", self.server))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "curl {path}: {text}{errors}");
        let (body, code) = text.rsplit_once('\n').unwrap();
        Answer { code: code.parse().unwrap(), body: body.to_owned() }
    }

    pub(crate) fn post(&self, path: &str, json: &str) -> Answer {
        self.curl(path, &["-X", "POST", "-H", "Content-Type: application/json", "-d", json])
    }
}
