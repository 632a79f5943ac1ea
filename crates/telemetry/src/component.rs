//! What every component of Kubernetes shows: what it was built from, and which features it has.

use crate::description::{Description, Stability};
use crate::registry::Registry;

const BUILD: Description<9> = Description {
    name: "kubernetes_build_info",
    stability: Stability::Beta,
    help: "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, \
           Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    labels: [
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ],
};

const FEATURE: Description<2> = Description {
    name: "kubernetes_feature_enabled",
    stability: Stability::Beta,
    help: "This metric records the data about the stage and enablement of a k8s feature.",
    labels: ["name", "stage"],
};

/// As `/version` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    pub major: &'a str,
    pub minor: &'a str,
    pub git_version: &'a str,
    pub git_tree_state: &'a str,
    pub build_date: &'a str,
    pub compiler: &'a str,
    pub platform: &'a str,
}

pub fn publish_build(registry: &Registry, build: &Build<'_>) {
    let Build { major, minor, git_version, git_tree_state, build_date, compiler, platform } =
        *build;
    let values =
        [major, minor, git_version, "", git_tree_state, build_date, "", compiler, platform];
    registry.gauges(&BUILD).with(values).set(1.0);
}

/// One feature gate. `stage` is upstream's word: `ALPHA`, `BETA`, `DEPRECATED`, or nothing once it
/// is generally available.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    pub name: &'static str,
    pub stage: &'static str,
    pub is_enabled: bool,
}

pub fn publish_gates(registry: &Registry, gates: impl IntoIterator<Item = Gate>) {
    let features = registry.gauges(&FEATURE);
    for Gate { name, stage, is_enabled } in gates {
        features.with([name, stage]).set(f64::from(u8::from(is_enabled)));
    }
}
