//! Acting as somebody else: a name that cannot be read is refused, never left out, since what is
//! left then is oneself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::process::Command;

use crate::control_plane::Cluster;
use crate::user::User;

/// As the administrator, with headers of any bytes.
fn ask(cluster: &Cluster, headers: &[&[u8]]) -> String {
    let pki = cluster.path("data/pki");
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"]);
    curl.arg(pki.join("ca.crt")).arg("--cert").arg(pki.join("admin.crt"));
    curl.arg("--key").arg(pki.join("admin.key"));
    for header in headers {
        curl.args([OsStr::new("-H"), &OsString::from_vec(header.to_vec())]);
    }
    let output = curl.arg(format!("{}/api/v1/secrets", cluster.server())).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn nobody_acts_as_themselves_by_a_name_that_cannot_be_read() {
    let Some(cluster) = Cluster::start(0) else { return };
    assert_eq!(ask(&cluster, &[]), "200");
    // A name of any letters is a name, with no rights of its own.
    assert_eq!(ask(&cluster, &["Impersonate-User: ä".as_bytes()]), "403");
    let who =
        cluster.ok(&["auth", "whoami", "--as=ä", "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(who, "ä");
    for headers in [
        &[&b"Impersonate-User: \xe4"[..]][..],
        &[b"Impersonate-User: jane", b"Impersonate-User: joe"],
        &[b"Impersonate-User: jane", b"Impersonate-Group: \xff"],
        &[b"Impersonate-User: jane", b"Impersonate-Uid: 1", b"Impersonate-Uid: 2"],
        &[b"Impersonate-User: jane", b"Impersonate-Extra-a: \xff"],
        &[b"Impersonate-User: jane", b"Impersonate-Extra-%ff: a"],
        &[b"Impersonate-User: jane", b"Impersonate-Unknown: a"],
        &[b"Impersonate-Group: system:masters"],
        &[b"Impersonate-Extra-a: b"],
        &[b"Authorization: Bearer \xff"],
        &[b"Authorization: Bearer a", b"Authorization: Bearer b"],
    ] {
        assert_eq!(ask(&cluster, headers), "400", "{headers:?}");
    }
    // Nor does somebody who may not act as others.
    cluster.ok(&["create", "namespace", "mine"]);
    let rule = r#"{apiGroups: [""], resources: [configmaps], verbs: [list]}"#;
    let user = User::new(&cluster, "mine", "mallory", &[rule]);
    let maps = "/api/v1/namespaces/mine/configmaps";
    assert_eq!(user.curl(maps, &[]).code, 200);
    assert_eq!(user.curl(maps, &["-H", "Impersonate-User: ä"]).code, 403);
}
