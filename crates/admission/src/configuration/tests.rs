//! Files in, settings or what is wrong with them out.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::{Configuration, Error, Settings};

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Quotas {
    api_version: String,
    kind: String,
    n_boats: u32,
}

impl Settings for Quotas {
    const PLUGIN: &'static str = "ResourceQuota";
    const KINDS: &'static [(&'static str, &'static str)] = &[("example.com/v1", "Quotas")];

    fn api_version_and_kind(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }
}

const HEAD: &str =
    "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";

/// The files of `/etc`, of which `a.yaml` is the list.
fn load(files: &[(&str, &str)]) -> Result<Configuration, Error> {
    let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
    let files: BTreeMap<String, String> = files.iter().map(owned).collect();
    Configuration::load(Path::new("/etc/a.yaml"), move |path| {
        let found = path.to_str().and_then(|it| files.get(it));
        found.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    })
}

fn listed(items: &str) -> String {
    format!("{HEAD}{items}")
}

fn shown(err: &Error) -> String {
    stdx::error_chain(err).to_string()
}

fn quotas(files: &[(&str, &str)]) -> Result<Option<Quotas>, String> {
    load(files).and_then(|it| it.settings()).map_err(|err| shown(&err))
}

fn boats(n_boats: u32) -> Option<Quotas> {
    let (api_version, kind) = ("example.com/v1".to_owned(), "Quotas".to_owned());
    Some(Quotas { api_version, kind, n_boats })
}

const OWN: &str = "apiVersion: example.com/v1\nkind: Quotas\nnBoats: 3\n";

#[test]
fn settings_are_in_the_list_or_in_a_file_of_their_own() {
    let within = listed(
        "- name: PodSecurity\n  configuration: {what: [ever]}\n\
         - name: ResourceQuota\n  configuration:\n    apiVersion: example.com/v1\n    kind: Quotas\n    nBoats: 2\n",
    );
    assert_eq!(quotas(&[("/etc/a.yaml", &within)]), Ok(boats(2)));
    // Whatever comes first.
    let early = listed(
        "- configuration: {apiVersion: example.com/v1, kind: Quotas, nBoats: 2}\n  name: ResourceQuota\n",
    );
    assert_eq!(quotas(&[("/etc/a.yaml", &early)]), Ok(boats(2)));
    let relative = listed("- {name: ResourceQuota, path: q/b.yaml}\n");
    assert_eq!(quotas(&[("/etc/a.yaml", &relative), ("/etc/q/b.yaml", OWN)]), Ok(boats(3)));
    let absolute = listed("- {name: ResourceQuota, path: /b.yaml}\n");
    assert_eq!(quotas(&[("/etc/a.yaml", &absolute), ("/b.yaml", OWN)]), Ok(boats(3)));
    for nothing in ["- name: ResourceQuota\n", "- {name: ResourceQuota, configuration: null}\n"] {
        assert_eq!(quotas(&[("/etc/a.yaml", &listed(nothing))]), Ok(None));
    }
    assert_eq!(quotas(&[("/etc/a.yaml", HEAD)]), Ok(None));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let check = |list: &str, own: &str, parts: &[&str]| {
        let err = quotas(&[("/etc/a.yaml", list), ("/etc/b.yaml", own)]).unwrap_err();
        for part in parts {
            assert!(err.contains(part), "{part:?} in: {err}");
        }
    };
    let path = listed("- {name: ResourceQuota, path: b.yaml}\n");
    check(
        &path,
        "apiVersion: example.com/v1\nkind: Quotas\nnBoats: many\n",
        &["/etc/b.yaml, line 3, field \"nBoats\"", "many"],
    );
    check(
        &path,
        "apiVersion: example.com/v1\nkind: Quotas\nnBoats: 1\nnShips: 2\n",
        &["/etc/b.yaml, line 4, field \"nShips\"", "unknown field"],
    );
    check(&path, "kind: [", &["/etc/b.yaml, line"]);
    check(&path, &OWN.replace("v1", "v2"), &["/etc/b.yaml", "not a Quotas of example.com/v1"]);
    let within = listed(
        "- name: ResourceQuota\n  configuration:\n    apiVersion: a\n    kind: b\n    nBoats: -1\n",
    );
    check(&within, "", &["/etc/a.yaml, line 8, field \"nBoats\""]);
    check(&listed("- {name: ResourceQuota, path: c.yaml}\n"), "", &["reading /etc/c.yaml"]);
}

#[test]
fn the_list_itself_is_checked() {
    let check = |list: &str, part: &str| {
        let err = shown(&load(&[("/etc/a.yaml", list), ("/etc/b.yaml", OWN)]).unwrap_err());
        assert!(err.contains(part) && err.contains("/etc/a.yaml"), "{part:?} in: {err}");
    };
    check(&listed("- {name: Boats}\n"), "plugins[0].name: \"Boats\" is no admission plugin");
    check(&listed("- {path: b.yaml}\n"), "name");
    check(&listed("- {name: ResourceQuota, paths: b.yaml}\n"), "paths");
    let twice = "- {name: ResourceQuota, path: b.yaml}\n".repeat(2);
    check(&listed(&twice), "plugins[1].name: \"ResourceQuota\" is there twice");
    check("kind: Pod\napiVersion: v1\n", "kind: \"Pod\" is not \"AdmissionConfiguration\"");
    check(&HEAD.replace("/v1", "/v9"), "apiVersion: \"apiserver.config.k8s.io/v9\" is not");
    let missing = Configuration::load(Path::new("/a"), |_| Err(io::ErrorKind::NotFound.into()));
    assert!(matches!(missing, Err(Error::Read { .. })));
}
