//! Cases of the conformance suite that need programs in pods.

use conformance::{Case, Options, all, requirements, run};

use crate::cluster::Cluster;

/// Says to this program, when it runs itself on the host of a cluster, which one that is.
const KUBECONFIG: &str = "XEBEC_TEST_SUITE_KUBECONFIG";
/// Each case has a pod of its own.
const PARALLEL: usize = 6;

/// Those that are skipped where nodes are simulated.
fn cases() -> Vec<&'static Case> {
    let names = requirements();
    let names = names.iter().filter(|it| it.tier == "T3" && it.out_of_scope.is_none());
    names.flat_map(|it| all(it.codename)).collect()
}

#[test]
fn every_requirement_of_programs_in_pods_is_met() {
    if std::env::var_os(KUBECONFIG).is_some() {
        return judge();
    }
    let Some(cluster) = Cluster::start() else { return };
    // The suite is a client as others are: it has to be where the cluster is.
    let mut itself = cluster.host.command(std::env::current_exe().unwrap());
    let name = concat!(module_path!(), "::every_requirement_of_programs_in_pods_is_met");
    let name = name.split_once("::").unwrap().1;
    itself.args(["--exact", name, "--nocapture"]).env(KUBECONFIG, cluster.path("data/kubeconfig"));
    let ran = itself.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}\n{said}", String::from_utf8_lossy(&ran.stdout));
    assert!(said.contains("ok      [sig-api-machinery] Aggregator"), "it has run none:\n{said}");
}

/// Runs the cases against the cluster that it is told of.
fn judge() {
    let kubeconfig = std::env::var_os(KUBECONFIG).unwrap().into();
    let options = Options { kubeconfig, parallel: PARALLEL, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(run(&options, &cases(), |line| eprintln!("{line}"))).unwrap();
    assert_eq!(report.failed, Vec::<String>::new(), "{report}");
    assert_eq!(report.skipped, Vec::<String>::new(), "a real node is there: {report}");
}
