//! Source in, files out.

use node_api::volumes::Volume;
use serde_json::{Value, json};

use super::render;
use crate::container_config::tests::{facts, object, pod};
use crate::pod_facts::{CertificateKey, Credential, TokenKey};

/// The volume, or the error, as text: files as `path mode [owner] content`.
fn text(spec: Value, source: Value) -> String {
    let mut volume = source;
    volume["name"] = json!("v");
    let mut facts = facts();
    let key = TokenKey { audience: "vault".to_owned(), expiration_seconds: 3600 };
    facts.lookups.tokens.insert(key, "t0ken".into());
    match render(&pod(json!({}), spec), &object(volume), &facts) {
        Err(err) => format!("error: {err}"),
        Ok(None) => "mounted by the runtime".to_owned(),
        Ok(Some(Volume::Files { files, plugin })) => {
            let line = |(path, file): (&String, &node_api::volumes::File)| {
                let owner = file.user.map(|it| format!(" {it}")).unwrap_or_default();
                let content = String::from_utf8_lossy(&file.content).into_owned();
                format!("{path} {:o}{owner} {content}", file.mode)
            };
            let lines: Vec<String> = files.iter().map(line).collect();
            format!("{plugin:?}: {}", lines.join(", "))
        }
        Ok(Some(other)) => format!("{other:?}"),
    }
}

fn check(source: Value, expected: &str) {
    assert_eq!(text(json!({}), source), expected);
}

#[test]
fn config_maps_become_files() {
    let source = |more: Value| {
        let mut source = json!({"name": "settings"});
        for (key, value) in more.as_object().unwrap() {
            source[key] = value.clone();
        }
        json!({"configMap": source})
    };
    check(source(json!({})), "ConfigMap: color 644 red, log.level 644 info, raw 644 \0\u{1}");
    check(
        source(json!({"defaultMode": 256, "items": [
            {"key": "color", "path": "a/b"}, {"key": "log.level", "path": "c", "mode": 384}]})),
        "ConfigMap: a/b 400 red, c 600 info",
    );
    let missing = json!([{"key": "none", "path": "x"}]);
    check(source(json!({"items": missing})), "error: references non-existent config key: none");
    check(source(json!({"items": missing, "optional": true})), "ConfigMap: ");
    check(source(json!({"name": "none"})), "error: configmap \"none\" not found");
    check(source(json!({"name": "none", "optional": true})), "ConfigMap: ");
}

#[test]
fn secrets_become_files() {
    check(json!({"secret": {"secretName": "login"}}), "Secret: password 644 s3cret");
    check(
        json!({"secret": {"secretName": "login", "items": [{"key": "none", "path": "x"}]}}),
        "error: references non-existent secret key: none",
    );
    check(json!({"secret": {"secretName": "none"}}), "error: secret \"none\" not found");
}

#[test]
fn fields_become_files() {
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}, "path": "f"});
    let check = |item: Value, expected: &str| {
        check(json!({"downwardAPI": {"items": [item]}}), expected);
    };
    check(field("metadata.name"), "DownwardApi: f 644 web-0");
    check(field("metadata.labels"), "DownwardApi: f 644 app=\"web\"\ntier=\"front \\\"end\\\"\"");
    check(field("metadata.annotations"), "DownwardApi: f 644 note=\"two\\nlines\"");
    let resource = |name: &str| {
        json!({"path": "f", "mode": 256, "resourceFieldRef": {
            "containerName": name, "resource": "limits.cpu"}})
    };
    check(resource("app"), "DownwardApi: f 400 4");
    check(resource("none"), "error: container none not found");
}

#[test]
fn projections_are_joined() {
    let token = json!({"serviceAccountToken": {"path": "token", "audience": "vault"}});
    let projected = |sources: Value| json!({"projected": {"sources": sources}});
    let name = json!({"downwardAPI": {"items": [
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}});
    let color =
        json!({"configMap": {"name": "settings", "items": [{"key": "color", "path": "c"}]}});
    check(
        projected(json!([token, name, color, {"secret": {"name": "login"}}])),
        "Projected: c 644 red, name 644 web-0, password 644 s3cret, token 644 t0ken",
    );
    let sources = projected(json!([token]));
    let with = |context: Value| text(json!({"securityContext": context}), sources.clone());
    assert_eq!(with(json!({"runAsUser": 7})), "Projected: token 600 7 t0ken");
    assert_eq!(with(json!({"fsGroup": 7})), "Projected: token 600 t0ken");
    check(
        projected(json!([{"serviceAccountToken": {"path": "t"}}])),
        "error: failed to fetch token: none was issued for audience \"\" yet",
    );
    check(
        projected(json!([{"configMap": {"name": "a"}}, {"secret": {"name": "b"}}])),
        "error: [configmap \"a\" not found, secret \"b\" not found]",
    );
    check(
        projected(json!([{"podCertificate": {"signerName": "a.io/b", "keyType": "ED25519"}}])),
        "error: pod certificate projection is not supported in static kubelet mode",
    );
}

#[test]
fn a_certificate_is_where_it_is_asked_for() {
    let mut facts = facts();
    let credential = |name: &str| Credential {
        key_pem: format!("key of {name}\n"),
        chain_pem: format!("chain of {name}\n"),
    };
    let key = |source| CertificateKey { volume: "v".to_owned(), source };
    let issued = (key(1), Ok(credential("b")));
    let waiting = (key(2), Err("credential bundle is not issued yet".to_owned()));
    facts.lookups.certificates = Some([(key(0), Ok(credential("a"))), issued, waiting].into());
    let check = |sources: Value, expected: &str| {
        let volume = json!({"name": "v", "projected": {"sources": sources}});
        let shown = match render(&pod(json!({}), json!({})), &object(volume), &facts) {
            Ok(Some(Volume::Files { files, .. })) => {
                let text = |it: &node_api::volumes::File| {
                    String::from_utf8_lossy(&it.content).into_owned()
                };
                let lines = files.iter().map(|(path, it)| format!("{path}: {}", text(it)));
                lines.collect::<String>()
            }
            other => format!("{}", other.unwrap_err()),
        };
        assert_eq!(shown, expected);
    };
    let source = |fields: Value| {
        let mut source = fields;
        source["signerName"] = json!("a.io/b");
        source["keyType"] = json!("ED25519");
        json!({"podCertificate": source})
    };
    let both = || source(json!({"keyPath": "key", "certificateChainPath": "chain"}));
    let bundle = || source(json!({"credentialBundlePath": "all"}));
    check(json!([both()]), "chain: chain of a\nkey: key of a\n");
    check(json!([{}, bundle()]), "all: key of b\nchain of b\n");
    check(json!([{}, {}, bundle()]), "credential bundle is not issued yet");
    check(json!([{}, {}, {}, bundle()]), "no credentials yet");
}

#[test]
fn directories_are_passed_on() {
    check(json!({"emptyDir": {}}), "EmptyDir { medium: Disk, size_limit: None }");
    check(
        json!({"emptyDir": {"sizeLimit": "1Mi"}}),
        "EmptyDir { medium: Disk, size_limit: Some(1048576) }",
    );
    let memory = |limit: &str| json!({"emptyDir": {"medium": "Memory", "sizeLimit": limit}});
    check(memory("1Mi"), "EmptyDir { medium: Memory, size_limit: Some(1048576) }");
    // Not more than the node has.
    check(memory("0"), "EmptyDir { medium: Memory, size_limit: Some(8589934592) }");
    check(
        json!({"emptyDir": {"medium": "HugePages"}}),
        "error: medium HugePages: hugePages storage requested, but there is no resource request for huge pages",
    );
    check(
        json!({"hostPath": {"path": "/srv", "type": "DirectoryOrCreate"}}),
        "HostPath { path: \"/srv\", kind: DirectoryOrCreate }",
    );
    check(json!({"hostPath": {"path": "/srv"}}), "HostPath { path: \"/srv\", kind: Unset }");
    check(json!({"image": {"reference": "a:1"}}), "mounted by the runtime");
    check(json!({"nfs": {"server": "a", "path": "/"}}), "error: no volume plugin matched");
}
